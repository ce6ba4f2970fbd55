package holdfast

import (
	"context"
	"net/http"
	"time"
)

const (
	// The minimum and the maximum time that one node gets for a call that does not wait.
	perNodeMin = 100 * time.Millisecond
	perNodeMax = 6 * time.Second
	// perNodeWaiting is the maximum time that one node holds a waiting call: a node that loses power closes no connection.
	perNodeWaiting = 45 * time.Second
	// parkWithin is the time in which the client looks for a node that accepts a parked keepalive.
	parkWithin = 50 * time.Millisecond
)

// A sender makes calls within the time in which a call must find a node that answers.
type sender struct {
	nodes   *nodes
	timeout time.Duration
}

func (s sender) within(timeout time.Duration) sender { return sender{s.nodes, timeout} }

// deliver sends a call within the request timeout, plus the wait of the call.
func (s sender) deliver(ctx context.Context, c call) delivery {
	way := alone
	if c.copies == harmless && c.wait == 0 {
		way = copied
	}
	return s.deliverBy(ctx, c, way)
}

// deliverAcquire sends an acquire. If a renewal has listed its grant, another node than before gets it first.
func (s sender) deliverAcquire(ctx context.Context, c call, isGrantedElsewhere bool) delivery {
	switch {
	case c.wait == 0:
		return s.deliver(ctx, c)
	case isGrantedElsewhere:
		return s.deliverBy(ctx, c, elsewhere)
	}
	return s.deliverBy(ctx, c, queued)
}

func (s sender) deliverBy(ctx context.Context, c call, way route) delivery {
	var b budget
	if c.wait == 0 {
		b.perNode = perNodeMax
		b.startUntil = time.Now().Add(max(s.timeout-perNodeMin, 0))
		b.until = b.startUntil.Add(perNodeMin)
	} else {
		b.perNode = min(c.wait+min(perNodeMax, s.timeout), perNodeWaiting)
		b.startUntil = time.Now().Add(s.timeout)
		b.until = b.startUntil.Add(b.perNode)
	}
	d := s.nodes.send(ctx, &c, b, way)
	d.err = settled(d.err, d.inDoubt)
	return d
}

// settled returns the error of a call. If the call is in doubt, an earlier copy may have been executed, although this
// copy was rejected because its request number is over.
func settled(err error, inDoubt bool) error {
	if _, isOver := newestRequest(err); isOver && inDoubt {
		return &OutcomeUnknownError{Reason: "the session no longer remembers the first answer, so read the state", Problem: ProblemOf(err)}
	}
	return err
}

// do sends a call, and decodes its answer, which must have the fields. A nil into is the end of something.
func (s sender) do(ctx context.Context, c call, into any, fields ...string) error {
	return s.deliver(ctx, c).decode(into, fields...)
}

// decode decodes the answer. A node confirms an end with 204, or with the field left for a double barrier.
func (d delivery) decode(into any, fields ...string) error {
	switch {
	case d.err != nil:
		return d.err
	case into != nil:
		return decode(d.response.body, into, fields...)
	case d.response.status == http.StatusNoContent:
		return nil
	}
	var body struct {
		Left bool `json:"left"`
	}
	return decode(d.response.body, &body, "left")
}

// repeatUntil repeats a waiting call until a node answers it or until passes. makeCall gets the wait of each copy.
func (s sender) repeatUntil(ctx context.Context, until time.Time, makeCall func(time.Duration) call, into any, fields ...string) error {
	wasInDoubt := false
	for {
		wait := min(max(time.Until(until), 0), waitMax).Truncate(time.Millisecond)
		c := makeCall(wait)
		c.wait = wait
		d := s.deliver(ctx, c)
		wasInDoubt = wasInDoubt || d.inDoubt
		if mayRepeat(d.err, until) && sleep(ctx, time.Until(retryAt(d.err))) == nil {
			continue
		}
		if d.err != nil {
			return settled(d.err, wasInDoubt)
		}
		return d.decode(into, fields...)
	}
}

// openSession opens a session, or renews it. The attempt is the number of the call.
func (s sender) openSession(ctx context.Context, name string, attempt int64, ttl time.Duration, labels map[string]string) (sessionBody, moment, error) {
	q := query{}.withNumber(paramAttempt, attempt).withDuration(paramTtl, ttl)
	for key, value := range labels {
		q = q.with("label."+key, value)
	}
	d := s.deliver(ctx, call{method: http.MethodPut, path: resource("sessions", name), query: q, copies: harmless})
	var body sessionBody
	err := d.decode(&body)
	return body, d.sent, err
}

// closeSession closes a session. With the incarnation, a late copy closes no later session of the same name.
func (s sender) closeSession(ctx context.Context, name string, incarnation int64) error {
	q := query{}.withNumber(paramIncarnation, incarnation)
	return s.do(ctx, call{method: http.MethodDelete, path: resource("sessions", name), query: q, copies: harmless}, nil)
}

// keepAlive renews a session, and no later one of its name, within leaseLeft. One node gets a quarter of it, so that time is left for other nodes.
func (s sender) keepAlive(ctx context.Context, name string, incarnation int64, leaseLeft time.Duration) delivery {
	until := time.Now().Add(leaseLeft)
	b := budget{min(max(leaseLeft/4, perNodeMin), perNodeMax), until.Add(-perNodeMin), until}
	c := call{method: http.MethodPost, path: resource("sessions", name) + "/keepalive", copies: harmless}
	c.query = query{}.withNumber(paramIncarnation, incarnation)
	return s.nodes.send(ctx, &c, b, copied)
}

// parkKeepAlive renews a session with a call that one node holds for wait, or until an event of the session's locks. It
// fails soon if no node accepts the call.
func (s sender) parkKeepAlive(ctx context.Context, name string, incarnation, since int64, wait, leaseLeft time.Duration) delivery {
	c := call{method: http.MethodPost, path: resource("sessions", name) + "/keepalive", copies: harmless, wait: wait}
	c.query = query{}.with(paramWait, wholeMillis(wait)).withNumber(paramSince, since).withNumber(paramIncarnation, incarnation)
	perNode := wait + min(max(leaseLeft/6, perNodeMin), perNodeMax)
	startUntil := time.Now().Add(parkWithin)
	return s.nodes.send(ctx, &c, budget{perNode, startUntil, startUntil.Add(perNode)}, parked)
}
