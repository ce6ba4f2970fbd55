package holdfast

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// HoldDurably acquires a lock with a durable hold, or finds the hold that the owner has, and returns its token. The hold has
// no session and outlasts this program: store the token, which alone releases it. After the end of ctx, or a *LostError of
// Close, the same call returns the token of a hold that was granted nevertheless.
func (c *Client) HoldDurably(ctx context.Context, name, owner, reason string, wait time.Duration) (int64, error) {
	if err := checkName("a lock", name); err != nil {
		return 0, err
	}
	until := time.Now().Add(wait)
	bounded, unbind := bind(ctx, c.ending)
	defer unbind()
	var body transferBody
	for after := int64(0); ; {
		// The copies of one attempt share the place in the queue. A late one acquires nothing after the release, because its
		// attempt is then over.
		q := durable(owner).with(paramReason, reason).withNumber(paramAttempt, nextNumber(after))
		err := c.calls.repeatUntil(bounded, until, func(wait time.Duration) call {
			return call{method: http.MethodPut, path: resource("locks", name), query: q.withDuration(paramWait, wait), copies: harmless}
		}, &body)
		var busy *BusyError
		newest, isOver := newestAttempt(err)
		hasTime := time.Now().Before(until)
		switch {
		case isOver && (hasTime || after == 0):
			// The wait of an earlier copy has ended, or another program of the owner has a clock that is ahead.
			after = newest
		case hasTime && errors.As(err, &busy) && busy.Code == CodeWaitTimeout:
			// The attempt ended with its wait, which one call may shorten.
		case err != nil && ctx.Err() == nil && bounded.Err() != nil:
			return 0, context.Cause(bounded)
		default:
			return body.Token, err
		}
	}
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
