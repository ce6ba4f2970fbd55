package holdfast

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

var _ sync.Locker = (*Locker)(nil)

// A Locker is a sync.Locker for code that takes one, such as sync.Cond. It reports a loss only through Context, so prefer
// Client.Lock where you can.
type Locker struct {
	client  *Client
	name    string
	options []LockOption

	turn  sync.Mutex // held between Lock and Unlock
	mu    sync.Mutex
	guard *Guard
}

// Locker returns a sync.Locker for a lock. Two Lockers exclude each other, also within one client.
func (c *Client) Locker(name string, options ...LockOption) *Locker {
	return &Locker{client: c, name: name, options: options}
}

// Lock acquires the lock. A sync.Locker cannot return an error, so Lock repeats the acquire until it holds the lock: also while
// no node answers, and after its place in the queue was lost. The option Wait has no effect. Lock panics if no repetition can
// succeed: after a rejected call, the end of a named session, or Close.
func (l *Locker) Lock() {
	l.turn.Lock()
	unbounded := func(o *lockOptions) { o.wait = nil }
	for {
		_, guard, err := l.client.Lock(context.Background(), l.name, append(slices.Clone(l.options), unbounded)...)
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.guard = guard
			return
		}
		if !IsRetryable(err) {
			l.turn.Unlock()
			panic(fmt.Sprintf("lock %q: %v", l.name, err))
		}
		time.Sleep(pauseMax)
	}
}

// Unlock releases the lock. It panics if the Locker is not locked.
func (l *Locker) Unlock() {
	guard := l.take()
	if guard == nil {
		panic(fmt.Sprintf("holdfast: Unlock of the unlocked lock %q", l.name))
	}
	defer l.turn.Unlock()
	if err := guard.Release(); err != nil {
		l.client.log.Warn("holdfast: release", "lock", l.name, "error", err)
	}
}

func (l *Locker) take() *Guard {
	l.mu.Lock()
	defer l.mu.Unlock()
	guard := l.guard
	l.guard = nil
	return guard
}

// Guard returns the guard of the locked Locker, or nil.
func (l *Locker) Guard() *Guard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guard
}
