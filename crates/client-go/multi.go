package holdfast

import (
	"context"
	"slices"
)

// multiLockMax is the maximum number of locks of one acquire.
const multiLockMax = 16

// A MultiGuard has several locks, acquired in one step. Each lock has a separate token. Ensure fails after the first loss; the
// other locks stay held until Release.
type MultiGuard struct{ *holding }

// LockMany acquires up to 16 locks, all or none. Such acquires never deadlock with each other, in any order of the names.
func (c *Client) LockMany(ctx context.Context, names []string, options ...LockOption) (context.Context, *MultiGuard, error) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 || len(names) > multiLockMax {
		return ctx, nil, invalid("a multi-lock has 1 to %d locks, and not %d", multiLockMax, len(names))
	}
	held, err := c.hold(ctx, names, newLockOptions(options))
	if err != nil {
		return ctx, nil, err
	}
	return held.ctx, &MultiGuard{held}, nil
}

// Names returns the names of the locks, in their order.
func (m *MultiGuard) Names() []string {
	names := make([]string, len(m.entries))
	for i, e := range m.entries {
		names[i] = e.lock
	}
	return names
}

// Tokens returns the fencing token of each lock.
func (m *MultiGuard) Tokens() map[string]int64 {
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	tokens := map[string]int64{}
	for _, e := range m.entries {
		tokens[e.lock] = e.grant.Token
	}
	return tokens
}
