package holdfast

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// A Barrier releases a number of parties together.
type Barrier struct {
	client  *Client
	name    string
	parties int
}

// Barrier returns the barrier of a name. All parties name the same number of parties.
func (c *Client) Barrier(name string, parties int) *Barrier { return &Barrier{c, name, parties} }

// A Tripped is the answer to a party that passes a barrier. Index is the order of the arrivals, from 0.
type Tripped struct {
	Generation int64 `json:"generation"`
	Index      int   `json:"index"`
	Parties    int   `json:"parties"`
}

func (t *Tripped) isComplete() bool { return t.Parties > 0 }

// Wait arrives, and waits for the other parties. Each call is a separate party. A party that does not wait to the end breaks
// the barrier: the others get a *RejectedError with the code barrier-broken.
func (b *Barrier) Wait(ctx context.Context, wait time.Duration) (*Tripped, error) {
	place, err := b.client.arrive(ctx, "barriers", b.name, b.parties, wait)
	if err != nil {
		return nil, err
	}
	place.session.leave()
	return &place.tripped, nil
}

// A DoubleBarrier lets a number of parties enter together and leave together.
type DoubleBarrier struct {
	client  *Client
	name    string
	parties int
}

// DoubleBarrier returns the double barrier of a name.
func (c *Client) DoubleBarrier(name string, parties int) *DoubleBarrier {
	return &DoubleBarrier{c, name, parties}
}

// A BarrierGuard is a place inside a double barrier. Leave it at the end of the work.
type BarrierGuard struct {
	place *barrierPlace
	// endUse ends the use of the session once.
	endUse func()
}

// Enter waits until enough other parties enter. Each call is a separate party.
func (b *DoubleBarrier) Enter(ctx context.Context, wait time.Duration) (*BarrierGuard, error) {
	place, err := b.client.arrive(ctx, "double-barriers", b.name, b.parties, wait)
	if err != nil {
		return nil, err
	}
	return &BarrierGuard{place, sync.OnceFunc(place.session.leave)}, nil
}

// Leave leaves, and waits until all parties have left. After a *BusyError this party has left, and others are inside. After
// Close it returns a *LostError. A second call only waits.
func (g *BarrierGuard) Leave(ctx context.Context, wait time.Duration) error {
	p := g.place
	until := time.Now().Add(wait)
	defer g.endUse()
	bounded, end := p.session.beginWait(ctx)
	defer end()
	for {
		err := p.client.calls.repeatUntil(bounded, until, func(wait time.Duration) call {
			q := p.query.withNumber(paramGeneration, p.tripped.Generation).withDuration(paramWait, wait)
			return call{method: http.MethodDelete, path: p.path, query: q, copies: harmless}
		}, nil)
		var busy *BusyError
		if errors.As(err, &busy) && time.Now().Before(until) {
			continue
		}
		if bounded.Err() != nil || err != nil && (ProblemOf(err) == nil || isUncertain(err)) {
			p.leaveInBackground(p.query.withNumber(paramGeneration, p.tripped.Generation))
		}
		if err != nil && ctx.Err() == nil && bounded.Err() != nil {
			return context.Cause(bounded)
		}
		return err
	}
}

// A barrierPlace is the place of one party. Its session has one more user.
type barrierPlace struct {
	client  *Client
	session *session
	path    string
	query   query // names the party
	tripped Tripped
}

// arrive arrives at a barrier or a double barrier. A failed arrival is withdrawn in the background.
func (c *Client) arrive(ctx context.Context, kind, name string, parties int, wait time.Duration) (*barrierPlace, error) {
	if err := checkName("a barrier", name); err != nil {
		return nil, err
	}
	session, err := c.session(ctx, 0)
	if err != nil {
		return nil, err
	}
	p := &barrierPlace{client: c, session: session, path: resource(kind, name)}
	p.query = query{}.with(paramSession, session.name).with(paramOwner, unique("a"))
	until := time.Now().Add(wait)
	ctx, end := session.beginWait(ctx)
	defer end()
	request := nextNumber(0)
	err = p.send(ctx, until, parties, request)
	if newest, isOver := newestRequest(err); isOver {
		request = nextNumber(newest)
		err = p.send(ctx, until, parties, request)
	}
	if err == nil {
		return p, nil
	}
	if ctx.Err() != nil || ProblemOf(err) == nil || isUncertain(err) {
		p.leaveInBackground(p.query.withNumber(paramRequest, request), p.query)
	}
	session.leave()
	if session.ending.Err() != nil {
		err = context.Cause(session.ending)
	}
	return nil, err
}

func (p *barrierPlace) send(ctx context.Context, until time.Time, parties int, request int64) error {
	q := p.query.withNumber(paramIncarnation, p.session.incarnation).withNumber(paramParties, int64(parties)).
		withNumber(paramRequest, request)
	return p.client.calls.repeatUntil(ctx, until, func(wait time.Duration) call {
		return call{method: http.MethodPut, path: p.path, query: q.withDuration(paramWait, wait), copies: repeatable}
	}, &p.tripped)
}

// leaveInBackground gives the place up, until the outcome is certain.
func (p *barrierPlace) leaveInBackground(names ...query) {
	p.session.inBackground(func(ctx context.Context) error {
		for len(names) > 0 {
			leave := call{method: http.MethodDelete, path: p.path, query: names[0], copies: repeatable}
			if err := p.client.calls.do(ctx, leave, nil); isUnclear(err) {
				return err
			}
			names = names[1:]
		}
		return nil
	}, func() {})
}
