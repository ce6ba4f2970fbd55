package holdfast

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// HoldDurably acquires a lock with a durable hold, or finds the hold that the owner has, and returns its token. The hold has
// no session and outlasts this program: store the token, which alone releases it. The wait is at most five minutes. After
// the end of ctx, the same call returns the token of a hold that was granted nevertheless.
func (c *Client) HoldDurably(ctx context.Context, name, owner, reason string, wait time.Duration) (int64, error) {
	if err := checkName("a lock", name); err != nil {
		return 0, err
	}
	var body transferBody
	// A late copy of the call acquires nothing after the release, because its attempt is then over.
	hold := func(after int64) error {
		q := durable(owner).with(paramReason, reason).withNumber(paramAttempt, nextNumber(after)).withDuration(paramWait, wait)
		request := call{method: http.MethodPut, path: resource("locks", name), query: q, wait: wait, copies: harmless}
		return c.calls.do(ctx, request, &body)
	}
	err := hold(0)
	if newest, isOver := newestAttempt(err); isOver {
		// Another program of the owner has a clock that is ahead.
		err = hold(newest)
	}
	return body.Token, err
}

// ReleaseDurable releases the durable hold that has this token. A repeated call has no effect.
func (c *Client) ReleaseDurable(ctx context.Context, name, owner string, token int64) error {
	if err := checkName("a lock", name); err != nil {
		return err
	}
	q := durable(owner).with(paramToken, strconv.FormatInt(token, 10))
	return c.calls.do(ctx, call{method: http.MethodDelete, path: resource("locks", name), query: q, copies: harmless}, nil)
}

func durable(owner string) query { return query{}.with(paramHold, "durable").with(paramOwner, owner) }
