package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A holding has the locks of one acquire: their context, and their release. Each method of a guard compares the clock with
// the deadline, so a process that was paused sees the loss before any timer has run. A lost hold stays lost.
type holding struct {
	client  *Client
	session *session
	entries []*entry
	ctx     context.Context
	// ended is cancelled at the loss and at the release, as ctx, but not at the end of the caller's context.
	ended  context.Context
	cancel context.CancelCauseFunc // of both
	losses chan *LostError
	since  time.Time // the grant

	releasing sync.Mutex
	isOver    atomic.Bool // released, or on its way
}

// A Guard is a held lock. It exists only for a grant, and a lost guard stays lost. Release it at the end of the work, also
// after a loss.
type Guard struct {
	*holding
	entry   *entry
	options lockOptions
}

// Lock acquires a lock, and waits until the context ends unless the option Wait bounds the time in the queue. The returned
// context is cancelled at the loss of the lock, with a *LostError as its cause, and at the release of the guard. The end of
// ctx does not release the lock.
//
// An acquire that fails or is cancelled leaves the queue in the background. If its session ends meanwhile, it continues in a
// fresh session. The error is a *BusyError if another caller holds the lock, and a *LostError if a named session has ended.
func (c *Client) Lock(ctx context.Context, name string, options ...LockOption) (context.Context, *Guard, error) {
	o := newLockOptions(options)
	held, err := c.hold(ctx, []string{name}, o)
	return c.guard(ctx, held, o, err)
}

func (c *Client) guard(ctx context.Context, held *holding, o lockOptions, err error) (context.Context, *Guard, error) {
	if err != nil {
		return ctx, nil, err
	}
	return held.ctx, &Guard{holding: held, entry: held.entries[0], options: o}, nil
}

// TryLock acquires a lock only if it is free, like Lock with Wait(0).
func (c *Client) TryLock(ctx context.Context, name string, options ...LockOption) (context.Context, *Guard, error) {
	return c.Lock(ctx, name, append(slices.Clone(options), Wait(0))...)
}

// hold acquires locks, and watches for their losses.
func (c *Client) hold(ctx context.Context, locks []string, options lockOptions) (*holding, error) {
	started := time.Now()
	acquired, err := c.acquire(ctx, locks, options)
	if err != nil {
		for _, lock := range locks {
			c.metrics.AcquireFailed(lock, err)
		}
		return nil, err
	}
	for _, lock := range locks {
		c.metrics.Acquired(lock, time.Since(started))
	}
	return c.newHolding(ctx, acquired.session, acquired.entries), nil
}

// newHolding returns granted entries, and watches for their losses. It is a user of the session.
func (c *Client) newHolding(ctx context.Context, s *session, entries []*entry) *holding {
	h := &holding{client: c, session: s, entries: entries, since: time.Now()}
	h.losses = make(chan *LostError, len(h.entries))
	ended, end := context.WithCancelCause(context.Background())
	derived, cancel := context.WithCancelCause(ctx)
	h.ctx, h.ended = derived, ended
	h.cancel = func(cause error) {
		end(cause)
		cancel(cause)
	}
	if lost := h.watch(); lost != nil {
		for _, e := range h.entries {
			h.lost(e, lost)
		}
	}
	return h
}

// watch makes the watcher of the session report losses. It returns the loss of a session that has ended meanwhile, which
// has no watcher any more.
func (h *holding) watch() *loss {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	_, lost := h.session.lease.check(now())
	for _, e := range h.entries {
		e := e
		e.onLoss = func(lost *loss) { h.lost(e, lost) }
		e.isReported = lost != nil
	}
	signal(h.session.checked)
	return lost
}

// lost reports the loss of one hold, and releases what the client ended while the cluster would keep it.
func (h *holding) lost(e *entry, lost *loss) {
	h.session.mu.Lock()
	token, isClosed := e.grant.Token, h.session.isClosed
	h.session.mu.Unlock()
	h.cancel(lostError(e, token, lost))
	if isClosed {
		return // The program has closed its client, and needs no report.
	}
	h.losses <- lostError(e, token, lost)
	h.client.metrics.Lost(e.lock, lost.cause)
	h.client.log.Warn("holdfast: lock lost", "lock", e.lock, "session", h.session.name, "cause", string(lost.cause), "reason", lost.reason)
	switch lost.cause {
	case CauseStalled, CauseMaxHoldExceeded, CauseRevoked:
		h.session.releaseInBackground([]*entry{e})
	}
}

func lostError(e *entry, token int64, lost *loss) *LostError {
	return &LostError{Lock: e.lock, Token: token, Cause: lost.cause, Reason: lost.reason}
}

// deadline returns the earliest deadline of the holds, or the first loss.
func (h *holding) deadline(entries []*entry) (moment, error) {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	at := now()
	first := moment(1<<63 - 1)
	for _, e := range entries {
		if e.isTransferred {
			return 0, lostError(e, e.grant.Token, &loss{cause: CauseTransferred})
		}
		deadline, lost := h.session.check(e, at)
		if lost != nil {
			e.limits.lose(lost, at)
			signal(h.session.checked)
			return 0, lostError(e, e.grant.Token, lost)
		}
		first = min(first, deadline)
	}
	if h.isOver.Load() {
		return 0, ErrReleased
	}
	return first, nil
}

// Ensure returns nil if the lock is certainly still held, and otherwise a *LostError, or ErrReleased after the release. Call
// it right before each write. It compares the clock with the deadline and sends nothing.
func (h *holding) Ensure() error {
	_, err := h.deadline(h.entries)
	return err
}

// Remaining returns the time until the deadline, which moves with every renewal; zero if the lock is lost.
func (h *holding) Remaining() time.Duration {
	deadline, err := h.deadline(h.entries)
	if err != nil {
		return 0
	}
	return deadline.left(now())
}

// Context returns the context that is cancelled at the loss and at the release.
func (h *holding) Context() context.Context { return h.ctx }

// Lost returns a channel with each loss: one of a single lock, and perhaps several of a multi-lock.
func (h *holding) Lost() <-chan *LostError { return h.losses }

// Session returns the name of the session that holds the lock.
func (h *holding) Session() string { return h.session.name }

// ReportProgress moves the deadline of the option ProgressTimeout. It returns a *LostError after a loss.
func (h *holding) ReportProgress() error {
	if err := h.Ensure(); err != nil {
		return err
	}
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	for _, e := range h.entries {
		if lost := e.limits.reportProgress(now()); lost != nil {
			return lostError(e, e.grant.Token, lost)
		}
	}
	return nil
}

// Release releases the lock, and returns when the release is certain. It returns a *LostError if the lock was lost before.
// If no node answers in time, or another server answers, it returns the error and continues in the background, at most until
// the session ends. A repeated call returns nil. The release of a lost lock of a named session goes on until its outcome is
// certain, because the session may live in the cluster.
func (h *holding) Release() error {
	h.releasing.Lock()
	defer h.releasing.Unlock()
	if h.isOver.Load() {
		return nil
	}
	var lost *LostError
	if errors.As(h.Ensure(), &lost) {
		h.session.reportLosses() // The watcher may be late, and reports no loss of a hold that is being released.
	}
	h.isOver.Store(true)
	defer h.session.leave()
	h.cancel(ErrReleased)
	if lost != nil {
		h.releaseInBackground()
		return lost
	}
	err := h.release(context.Background())
	if isUnclear(err) {
		h.releaseInBackground()
	}
	if gone := rejectedWith(err, CodeNotHolder, CodeAttemptOver); gone != nil {
		at := slices.IndexFunc(h.entries, func(e *entry) bool { return e.lock == gone.Lock })
		e := h.entries[max(at, 0)]
		return lostError(e, e.grant.Token, &loss{cause: CauseReleasedElsewhere})
	}
	return err
}

// release releases the locks. If the cluster confirms it, it counts those that were not lost before.
func (h *holding) release(ctx context.Context) error {
	if err := h.session.release(ctx, h.entries); err != nil {
		return err
	}
	for _, e := range h.entries {
		if !h.session.isReported(e) {
			h.client.metrics.Released(e.lock, time.Since(h.since))
		}
	}
	return nil
}

func (h *holding) releaseInBackground() {
	h.session.startLeaving(h.entries)
	h.session.inBackground(h.release, func() { h.session.remove(h.entries) })
}

// Token returns the fencing token to send with every write under the lock. An upgrade replaces it in every guard of the hold.
func (g *Guard) Token() int64 { return g.grant().Token }

// MinValidToken returns the smallest token of the lock that was valid at the grant: the floor of a shared holder.
func (g *Guard) MinValidToken() int64 { return g.grant().MinValidToken }

// Permits returns the number of permits; 1 unless the lock is a semaphore.
func (g *Guard) Permits() int { return max(g.grant().Permits, 1) }

// Name returns the name of the lock; of a sharded lock, the name of the shard: stock/3.
func (g *Guard) Name() string { return g.entry.lock }

// Mode returns the present mode.
func (g *Guard) Mode() Mode { return g.grant().Mode }

// Slots returns a number for each permit of a semaphore, below its limit. No other holder has the same number at the time.
func (g *Guard) Slots() []int { return g.grant().Slots }

// Shard returns the number of the shard; -1 unless the lock is sharded.
func (g *Guard) Shard() int {
	if shard := g.grant().Shard; shard != nil {
		return *shard
	}
	return -1
}

// ReleaseRequested returns a channel with the latest release request of another caller.
func (g *Guard) ReleaseRequested() <-chan ReleaseRequest { return g.entry.requests }

func (g *Guard) grant() grantBody {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	return g.entry.grant
}

// String returns the lock, the token, and whether the lock is held.
func (g *Guard) String() string {
	state := fmt.Sprintf("held for %v", g.Remaining().Round(time.Millisecond))
	if err := g.Ensure(); err != nil {
		state = err.Error()
	}
	return fmt.Sprintf("guard of lock %q, token %d: %s", g.Name(), g.Token(), state)
}

// Headers returns the header Fencing-Token for calls to a service that checks tokens. A holder beside others also sends its
// floor. The header has no resource if the name of the lock has other characters than printable ASCII, because HTTP libraries
// reject them.
func (g *Guard) Headers() http.Header {
	grant := g.grant()
	value := fmt.Sprint(grant.Token)
	if quoted, isText := quoteHeader(g.entry.lock); isText {
		value += "; resource=" + quoted
	}
	if grant.MinValidToken != grant.Token {
		value += fmt.Sprintf("; floor=%d", grant.MinValidToken)
	}
	return http.Header{"Fencing-Token": {value}}
}

func quoteHeader(text string) (string, bool) {
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' {
			return "", false
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`, true
}

// ReleasePermits gives back n permits of a semaphore, from the highest slot down, and keeps the others with the same token. A
// guard keeps at least one permit.
func (g *Guard) ReleasePermits(ctx context.Context, n int) error {
	if n <= 0 || n >= g.Permits() {
		return invalid("a guard keeps at least one permit: release the guard to give back all")
	}
	if err := g.Ensure(); err != nil {
		return err
	}
	q := query{}.withText(paramOwner, g.entry.owner).withNumber(paramToken, g.Token()).withNumber(paramPermits, int64(n))
	release := call{method: http.MethodDelete, path: resource("locks", g.entry.lock), query: q}
	// The cluster may grant the other slots before its answer arrives.
	granted := g.keepPermits(g.Permits() - n)
	d, err := g.session.deliverNumbered(ctx, g.session.send, g.session.withNumber(release))
	if err != nil || d.err != nil && !d.inDoubt {
		g.session.mu.Lock()
		g.entry.grant.Permits, g.entry.grant.Slots = granted.Permits, granted.Slots
		g.session.mu.Unlock()
	}
	if err != nil {
		return err
	}
	return d.outcomeOfOnce(nil, nil)
}

// keepPermits takes the highest slots out of the grant, and returns the grant before.
func (g *Guard) keepPermits(permits int) grantBody {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	grant := &g.entry.grant
	before := *grant
	grant.Permits = permits
	if len(grant.Slots) > permits {
		grant.Slots = slices.Clone(grant.Slots[:permits])
	}
	return before
}
