package holdfast

import "time"

// Metrics receives what a client counts, once for each lock of an acquire, for example for Prometheus or OpenTelemetry. Its
// methods are called from several goroutines and must return at once.
type Metrics interface {
	// Acquired reports a grant, and how long the caller waited for it.
	Acquired(lock string, waited time.Duration)
	// AcquireFailed reports an acquire without a grant.
	AcquireFailed(lock string, err error)
	// Lost reports a loss.
	Lost(lock string, cause Cause)
	// Released reports that the cluster has confirmed the release of a guard, and how long the lock was held.
	Released(lock string, held time.Duration)
	// Renewed reports a renewal of the session, and whether the cluster acknowledged it.
	Renewed(session string, isAcknowledged bool)
}

type noMetrics struct{}

func (noMetrics) Acquired(string, time.Duration) {}
func (noMetrics) AcquireFailed(string, error)    {}
func (noMetrics) Lost(string, Cause)             {}
func (noMetrics) Released(string, time.Duration) {}
func (noMetrics) Renewed(string, bool)           {}
