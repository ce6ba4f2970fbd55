package holdfast

import (
	"context"
	"slices"
)

// A Semaphore is a lock with a number of permits.
type Semaphore struct {
	client *Client
	name   string
	limit  int
}

// Semaphore returns the semaphore of a name. All callers name the same limit, the number of permits in all.
func (c *Client) Semaphore(name string, limit int) *Semaphore {
	return &Semaphore{c, name, limit}
}

// Acquire acquires n permits, all or none. Guard.ReleasePermits gives some of them back.
func (s *Semaphore) Acquire(ctx context.Context, n int, options ...LockOption) (context.Context, *Guard, error) {
	if n <= 0 {
		return ctx, nil, invalid("a semaphore is acquired with one permit or more, and not %d", n)
	}
	return s.client.Lock(ctx, s.name, append(slices.Clone(options), Permits(n, s.limit))...)
}
