package holdfast

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// A Latch opens when its count of different keys reaches zero, and stays open until its deletion.
type Latch struct {
	client *Client
	name   string
}

// Latch returns the latch of a name.
func (c *Client) Latch(name string) *Latch { return &Latch{c, name} }

// A LatchState is the state of a latch.
type LatchState struct {
	Count int  `json:"count"`
	Left  int  `json:"left"`
	Open  bool `json:"open"`
}

// Create creates the latch, unless one with the same count exists.
func (l *Latch) Create(ctx context.Context, count int) (*LatchState, error) {
	var state LatchState
	q := query{}.withNumber(paramCount, int64(count))
	if err := l.change(ctx, http.MethodPut, q, &state, "left"); err != nil {
		return nil, err
	}
	return &state, nil
}

// CountDown counts a key, once. It returns the count that is left.
func (l *Latch) CountDown(ctx context.Context, key string) (int, error) {
	var body struct {
		Left int `json:"left"`
	}
	err := l.change(ctx, http.MethodPost, query{}.with(paramKey, key), &body, "left")
	return body.Left, err
}

// Delete deletes the latch. Waiting callers get a *RejectedError.
func (l *Latch) Delete(ctx context.Context) error { return l.change(ctx, http.MethodDelete, nil, nil) }

func (l *Latch) change(ctx context.Context, method string, q query, into any, fields ...string) error {
	if err := checkName("a latch", l.name); err != nil {
		return err
	}
	return l.client.once(ctx, call{method: method, path: resource("latches", l.name), query: q}, into, fields...)
}

// Wait waits until the latch is open. After the wait it returns a *BusyError, and after Close a *LostError.
func (l *Latch) Wait(ctx context.Context, wait time.Duration) (*LatchState, error) {
	if err := checkName("a latch", l.name); err != nil {
		return nil, err
	}
	until := time.Now().Add(wait)
	bounded, unbind := bind(ctx, l.client.ending)
	defer unbind()
	for {
		var state LatchState
		err := l.client.calls.repeatUntil(bounded, until, func(wait time.Duration) call {
			return get(resource("latches", l.name), query{}.withDuration(paramWait, wait))
		}, &state, "open")
		var busy *BusyError
		if errors.As(err, &busy) && time.Now().Before(until) {
			continue
		}
		if err != nil && ctx.Err() == nil && bounded.Err() != nil {
			return nil, context.Cause(bounded)
		}
		if err != nil {
			return nil, err
		}
		return &state, nil
	}
}

// A Counter is a signed number of 64 bits that many callers change.
type Counter struct {
	client *Client
	name   string
}

// Counter returns the counter of a name. A new counter is 0.
func (c *Client) Counter(name string) *Counter { return &Counter{c, name} }

type counterBody struct {
	Value int64 `json:"value"`
}

// Add adds a number, which may be negative, and returns the new value.
func (n *Counter) Add(ctx context.Context, amount int64) (int64, error) {
	return n.change(ctx, http.MethodPost, query{}.with(paramAdd, strconv.FormatInt(amount, 10)))
}

// Set replaces the value.
func (n *Counter) Set(ctx context.Context, value int64) (int64, error) {
	return n.change(ctx, http.MethodPut, query{}.with(paramValue, strconv.FormatInt(value, 10)))
}

// Get reads the value.
func (n *Counter) Get(ctx context.Context) (int64, error) {
	if err := checkName("a counter", n.name); err != nil {
		return 0, err
	}
	var body counterBody
	err := n.client.calls.do(ctx, get(resource("counters", n.name), nil), &body, "value")
	return body.Value, err
}

func (n *Counter) change(ctx context.Context, method string, q query) (int64, error) {
	if err := checkName("a counter", n.name); err != nil {
		return 0, err
	}
	var body counterBody
	err := n.client.once(ctx, call{method: method, path: resource("counters", n.name), query: q}, &body, "value")
	return body.Value, err
}
