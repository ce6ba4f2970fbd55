package holdfast

import (
	"context"
	"net/http"
	"time"
)

// A LockState has the holders and the queue of a lock.
type LockState struct {
	Lock         string   `json:"lock"`
	Mode         Mode     `json:"mode"`
	Held         bool     `json:"held"`
	Holders      []Holder `json:"holders"`
	HoldersTotal int      `json:"holders_total"`
	Waiters      int      `json:"waiters"`
	Queue        []Waiter `json:"queue"`
	LastToken    int64    `json:"last_token"`
	Revision     int64    `json:"revision"`
}

func (s *LockState) isComplete() bool { return s.Lock != "" }

// A Waiter is a waiting caller of a lock.
type Waiter struct {
	Session      string            `json:"session"`
	Owner        string            `json:"owner"`
	WaitingForMS int64             `json:"waiting_for_ms"`
	Mode         Mode              `json:"mode"`
	Permits      int               `json:"permits"`
	Labels       map[string]string `json:"labels"`
	Value        string            `json:"value"`
}

// LockState reads the holders and the queue of a lock. A lock that was never acquired is free.
func (c *Client) LockState(ctx context.Context, name string) (*LockState, error) {
	if err := checkName("a lock", name); err != nil {
		return nil, err
	}
	var state LockState
	if err := c.calls.do(ctx, get(resource("locks", name), nil), &state); err != nil {
		return nil, err
	}
	return &state, nil
}

// ForceRelease ends every hold of a lock, or only the hold with a token unless token is 0, as an operator. It returns the
// number of ended holds. Without a token, the client does not repeat a call whose answer is lost, because a copy could end a
// later hold. After an *OutcomeUnknownError, read the lock first.
func (c *Client) ForceRelease(ctx context.Context, name string, token int64, reason string) (int, error) {
	if err := checkName("a lock", name); err != nil {
		return 0, err
	}
	var body struct {
		Ended int `json:"ended"`
	}
	q := query{}.with(paramReason, reason)
	err := c.changeHolds(ctx, resource("force-releases", name), token, q, &body, "ended")
	return body.Ended, err
}

// RequestRelease asks the holders of a lock, or only the holder with a token unless token is 0, to release it by the deadline.
// With revoke, the cluster ends the holds then. It returns the number of asked holders. Without a token, the client does not
// repeat a call whose answer is lost, as with ForceRelease.
func (c *Client) RequestRelease(ctx context.Context, name string, token int64, reason string, deadline time.Duration, revoke bool) (int, error) {
	if err := checkName("a lock", name); err != nil {
		return 0, err
	}
	q := query{}.withText(paramReason, reason).withDuration(paramDeadline, deadline)
	if revoke {
		q = q.with(paramRevoke, "true")
	}
	var body struct {
		Asked int `json:"asked"`
	}
	err := c.changeHolds(ctx, resource("release-requests", name), token, q, &body, "asked")
	return body.Asked, err
}

// changeHolds sends a call that concerns the hold with a token, or every hold of a lock.
func (c *Client) changeHolds(ctx context.Context, path string, token int64, q query, into any, field string) error {
	change := call{method: http.MethodPost, path: path, query: q.withNumber(paramToken, token), copies: never}
	if token != 0 {
		change.copies = harmless
	}
	return c.calls.do(ctx, change, into, field)
}
