package holdfast

import (
	"context"
	"errors"
	"strconv"
	"sync"
)

// numberedMax: a session remembers the answers to 64 numbered calls, and rejects new ones up to the largest forgotten
// number. Calls therefore run at most this far ahead of the oldest one in progress.
const numberedMax = 32

// numberedCalls has the calls with a request number of one session, except arrivals at barriers.
type numberedCalls struct {
	permits chan struct{}

	mu      sync.Mutex
	started []*numberedCall // from the oldest one in progress, in the order of their numbers
}

type numberedCall struct {
	number int64
	isOver bool
}

func newNumberedCalls() *numberedCalls {
	return &numberedCalls{permits: make(chan struct{}, numberedMax)}
}

func (n *numberedCalls) begin(ctx context.Context, after int64) (*numberedCall, error) {
	select {
	case n.permits <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	started := &numberedCall{number: nextNumber(after)}
	n.started = append(n.started, started)
	return started, nil
}

func (n *numberedCalls) end(over *numberedCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	over.isOver = true
	for len(n.started) > 0 && n.started[0].isOver {
		n.started = n.started[1:]
		<-n.permits
	}
}

// once sends a change that the cluster executes once, with the client's session and a new request number. If the cluster
// certainly did not execute it because the number is over, once sends it again with a larger number.
func (s *session) once(ctx context.Context, send sender, c call, into any, fields ...string) error {
	return s.sendNumbered(ctx, send, into, fields, s.withNumber(c))
}

func (s *session) withNumber(c call) func(int64) (call, error) {
	return func(number int64) (call, error) {
		copied := c
		copied.query = c.query.with(paramSession, s.name).with(paramRequest, strconv.FormatInt(number, 10))
		copied.copies = harmless
		return copied, nil
	}
}

func (s *session) sendNumbered(
	ctx context.Context, send sender, into any, fields []string, numbered func(int64) (call, error),
) error {
	d, err := s.deliverNumbered(ctx, send, numbered)
	if err != nil {
		return err
	}
	return d.outcomeOfOnce(into, fields)
}

// deliverNumbered returns an error if the call was not sent.
func (s *session) deliverNumbered(
	ctx context.Context, send sender, numbered func(int64) (call, error),
) (delivery, error) {
	after := int64(0)
	for {
		started, err := s.numbered.begin(ctx, after)
		if err != nil {
			return delivery{}, err
		}
		var d delivery
		change, err := numbered(started.number)
		if err == nil {
			d = send.deliver(ctx, change)
			s.endIfOver(d.err)
		}
		s.numbered.end(started)
		newest, isOver := newestRequest(d.err)
		if err != nil || !isOver || after != 0 {
			return d, err
		}
		after = newest
	}
}

// outcomeOfOnce decodes the answer to a numbered call. The end of the session hides whether an earlier copy of the call was
// executed.
func (d delivery) outcomeOfOnce(into any, fields []string) error {
	var lost *LostError
	if d.inDoubt && errors.As(d.err, &lost) {
		return &OutcomeUnknownError{Reason: "the session ended before the answer, so read the state"}
	}
	return d.decode(into, fields...)
}

// once sends a numbered change by the client's session.
func (c *Client) once(ctx context.Context, change call, into any, fields ...string) error {
	session, err := c.session(ctx, 0)
	if err != nil {
		return err
	}
	defer session.leave()
	return session.once(ctx, c.calls, change, into, fields...)
}
