package holdfast

import "time"

// Metrics receives what a client counts, for example for Prometheus or OpenTelemetry. Its methods are called from several
// goroutines and must return at once.
type Metrics interface {
	// Acquired reports a grant, and how long the caller waited for it.
	Acquired(lock string, waited time.Duration)
	// AcquireFailed reports an acquire without a grant.
	AcquireFailed(lock string, err error)
	// Lost reports a loss.
	Lost(lock string, cause Cause)
	// Renewed reports a renewal of the session, without the time that the node held it.
	Renewed(took time.Duration, err error)
}

type noMetrics struct{}

func (noMetrics) Acquired(string, time.Duration) {}
func (noMetrics) AcquireFailed(string, error)    {}
func (noMetrics) Lost(string, Cause)             {}
func (noMetrics) Renewed(time.Duration, error)   {}
