// Package holdfastprom counts what a client does in a registry of Prometheus. No metric has the name of a lock as a label,
// because a program can have any number of locks.
package holdfastprom

import (
	"errors"
	"strconv"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	acquire  prometheus.Histogram
	hold     prometheus.Histogram
	failures *prometheus.CounterVec
	losses   *prometheus.CounterVec
	renewals *prometheus.CounterVec
}

// New registers the metrics and returns the Metrics of a holdfast.Config. Clients can share them; it panics if the
// registry has them already.
func New(registerer prometheus.Registerer) holdfast.Metrics {
	factory := promauto.With(registerer)
	counter := func(name, help, label string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_client_" + name, Help: help}, []string{label})
	}
	seconds := func(name, help string) prometheus.Histogram {
		return factory.NewHistogram(prometheus.HistogramOpts{Name: "holdfast_client_" + name + "_seconds", Help: help})
	}
	return &metrics{
		acquire:  seconds("acquire", "Time from the call to the grant of a lock"),
		hold:     seconds("hold", "Time from the grant of a lock to its release"),
		failures: counter("acquire_failures_total", "Acquires that ended without a grant", "error"),
		losses:   counter("losses_total", "Held locks that were lost", "cause"),
		renewals: counter("renewals_total", "Renewals of sessions", "acknowledged"),
	}
}

func (m *metrics) Acquired(_ string, waited time.Duration) { m.acquire.Observe(waited.Seconds()) }

func (m *metrics) AcquireFailed(_ string, err error) { m.failures.WithLabelValues(kind(err)).Inc() }

func (m *metrics) Lost(_ string, cause holdfast.Cause) { m.losses.WithLabelValues(string(cause)).Inc() }

func (m *metrics) Released(_ string, held time.Duration) { m.hold.Observe(held.Seconds()) }

func (m *metrics) Renewed(_ string, isAcknowledged bool) {
	m.renewals.WithLabelValues(strconv.FormatBool(isAcknowledged)).Inc()
}

// kind returns the name of an error without its suffix.
func kind(err error) string {
	switch {
	case errors.As(err, new(*holdfast.BusyError)):
		return "busy"
	case errors.As(err, new(*holdfast.LostError)):
		return "lost"
	case errors.As(err, new(*holdfast.UnavailableError)):
		return "unavailable"
	case errors.As(err, new(*holdfast.OutcomeUnknownError)):
		return "outcome-unknown"
	case errors.As(err, new(*holdfast.RejectedError)):
		return "rejected"
	case errors.As(err, new(*holdfast.UnexpectedResponseError)):
		return "unexpected-response"
	case errors.As(err, new(*holdfast.InvalidArgumentError)):
		return "invalid-argument"
	}
	return "cancelled"
}
