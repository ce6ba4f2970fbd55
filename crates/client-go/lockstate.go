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
// number of ended holds.
func (c *Client) ForceRelease(ctx context.Context, name string, token int64, reason string) (int, error) {
	if err := checkName("a lock", name); err != nil {
		return 0, err
	}
	q := query{}.with(paramReason, reason).withNumber(paramToken, token)
	var body struct {
		Ended int `json:"ended"`
	}
	err := c.calls.do(ctx, call{method: http.MethodPost, path: resource("force-releases", name), query: q, harmless: token != 0}, &body)
	return body.Ended, err
}

// RequestRelease asks the holders of a lock to release it by the deadline. With revoke, the cluster ends the holds then. It
// returns the number of asked holders.
func (c *Client) RequestRelease(ctx context.Context, name, reason string, deadline time.Duration, revoke bool) (int, error) {
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
	err := c.calls.do(ctx, call{method: http.MethodPost, path: resource("release-requests", name), query: q}, &body)
	return body.Asked, err
}
