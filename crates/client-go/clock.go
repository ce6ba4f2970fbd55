package holdfast

import (
	"sync"
	"time"
)

// clockCheck is the interval at which a session compares its deadlines with the clock: timers stand still while the
// machine is suspended.
const clockCheck = 500 * time.Millisecond

// A moment is a point on a clock that also advances while the machine is suspended, as nanoseconds since its origin.
// Moments are comparable only within one process.
type moment time.Duration

func (m moment) plus(d time.Duration) moment { return m + moment(d) }

// left returns the time from now until m, or zero if m has passed.
func (m moment) left(now moment) time.Duration {
	if m <= now {
		return 0
	}
	return time.Duration(m - now)
}

// A progress adds up how far time has advanced by the monotonic clock or the wall clock, whichever advanced more since
// the previous reading. It replaces a clock that includes suspensions where the system has none: a step of the wall
// clock forward can end a lease early, and no step extends one.
type progress struct {
	mu              sync.Mutex
	monotonic, wall time.Duration
	total           moment
}

func (p *progress) advance(monotonic, wall time.Duration) moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := max(monotonic-p.monotonic, wall-p.wall, 0)
	p.monotonic, p.wall = max(p.monotonic, monotonic), wall
	p.total = p.total.plus(passed)
	return p.total
}

var (
	processStart = time.Now()
	sinceStart   progress
)

// elapsed is the clock of systems without CLOCK_BOOTTIME.
func elapsed() moment {
	now := time.Now()
	wall := time.Duration(now.UnixNano() - processStart.UnixNano())
	return sinceStart.advance(now.Sub(processStart), wall)
}
