package holdfast

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// The first and the maximum pause between two rounds over all nodes.
	pauseMin = 20 * time.Millisecond
	pauseMax = 500 * time.Millisecond
	// searchTimeout is the maximum time of the search for a node that answers, before a call that may have only one copy.
	searchTimeout = time.Second
)

// A budget has the time limits of a call.
type budget struct {
	perNode    time.Duration
	startUntil time.Time // no request starts later
	until      time.Time // no request lasts longer
}

// A route decides which nodes get the requests of a call, and when.
type route int

const (
	copied    route = iota // the answer is due at once, and copies are harmless: the next node gets one if this one is late
	alone                  // one node has the call as long as it answers pings
	queued                 // one node has the acquire if it answers the first ping; the parked keepalive delivers the grant
	elsewhere              // as queued, first at a node where no call of this client waits
	parked                 // one node holds the keepalive, without pings, where no call of this client waits
)

// A delivery is the result of a call.
type delivery struct {
	response *response
	sent     moment // every duration in the answer counts from this moment or later
	err      error
	inDoubt  bool // whether a request without an answer may still take effect later
}

// A sentCopy is one request of a call, and later its outcome.
type sentCopy struct {
	node    int
	sent    moment
	outcome outcome
}

// rounds tries the nodes until one answers or the time of the call is over.
type rounds struct {
	nodes      *nodes
	call       *call
	budget     budget
	route      route
	untried    []int // the nodes without a request in this round
	inFlight   []sentCopy
	isStarted  bool
	startAt    time.Time   // no request starts earlier
	notBefore  []time.Time // no request at this node starts earlier
	pause      time.Duration
	failures   []string // the last failure of each node
	foreign    []bool   // whether the last answer at the address is from another server
	problem    *Problem // of the last node that answered
	lostAnswer bool     // whether a request failed after the node may have received it
	oldToken   error
	results    chan sentCopy
}

// send sends a call to the nodes until one answers.
func (n *nodes) send(ctx context.Context, c *call, b budget, way route) delivery {
	if c.copies != harmless && len(n.all) > 1 && !n.isFirstAlive() {
		n.findAlive(ctx, b)
	}
	return n.newRounds(c, b, way).run(ctx)
}

// findAlive makes calls start at a node that answers, so that the only copy of a call does not go to a frozen node.
func (n *nodes) findAlive(ctx context.Context, b budget) {
	until := earlier(b.startUntil, time.Now().Add(searchTimeout))
	ping := get(pingPath, nil)
	n.newRounds(&ping, budget{searchTimeout, until, until}, copied).run(ctx)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (n *nodes) newRounds(c *call, b budget, way route) *rounds {
	order := n.order
	if way == elsewhere || way == parked {
		order = n.orderOfIdle
	}
	return &rounds{
		nodes: n, call: c, budget: b, route: way, untried: order(), startAt: time.Now(), pause: pauseMin,
		failures: make([]string, len(n.all)), notBefore: make([]time.Time, len(n.all)), foreign: make([]bool, len(n.all)), results: make(chan sentCopy, len(n.all)),
	}
}

func (r *rounds) run(ctx context.Context) delivery {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		if r.mayStart() && !time.Now().Before(r.nextStart()) {
			r.start(ctx)
		}
		var timer *time.Timer
		var due <-chan time.Time
		if r.mayStart() {
			timer = time.NewTimer(time.Until(r.nextStart()))
			due = timer.C
		} else if len(r.inFlight) == 0 {
			return delivery{err: r.err(), inDoubt: r.lostAnswer}
		}
		select {
		case result := <-r.results:
			if d := r.receive(result); d != nil {
				return *d
			}
		case <-due:
		case <-ctx.Done():
			return delivery{err: ctx.Err(), inDoubt: r.isInDoubt()}
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

func (r *rounds) isInDoubt() bool { return r.lostAnswer || len(r.inFlight) > 0 }

func (r *rounds) mayStart() bool {
	if len(r.untried) == 0 || len(r.inFlight) > 0 && r.route != copied {
		return false
	}
	return !r.isStarted || later(time.Now(), r.retryAt(r.untried)).Before(r.budget.startUntil)
}

// nextStart returns when the next request may start.
func (r *rounds) nextStart() time.Time { return later(r.startAt, r.retryAt(r.untried)) }

// retryAt returns when the first of some nodes may get the call again.
func (r *rounds) retryAt(nodes []int) time.Time {
	at := r.notBefore[nodes[0]]
	for _, node := range nodes {
		at = earlier(at, r.notBefore[node])
	}
	return at
}

// start sends the request to the next node that may get it.
func (r *rounds) start(ctx context.Context) {
	at := slices.IndexFunc(r.untried, func(node int) bool { return !time.Now().Before(r.notBefore[node]) })
	next := sentCopy{node: r.untried[at]}
	r.untried = slices.Delete(r.untried, at, at+1)
	if len(r.inFlight) > 0 {
		r.nodes.changeCredit(-copyCost)
	}
	timeout := min(r.budget.perNode, time.Until(r.budget.until))
	next.sent = now()
	r.inFlight = append(r.inFlight, next)
	r.isStarted = true
	r.startAt = time.Now().Add(r.nodes.copyDelay())
	go func() {
		switch r.route {
		case copied, parked:
			next.outcome = r.nodes.attempt(ctx, r.call, timeout, next.node)
		case alone:
			next.outcome = r.nodes.attemptWhileAlive(ctx, r.call, timeout, next.node, math.MaxInt)
		case queued, elsewhere:
			next.outcome = r.nodes.attemptWhileAlive(ctx, r.call, timeout, next.node, 1)
		}
		r.results <- next
	}()
}

// receive returns the delivery if the outcome settles the call.
func (r *rounds) receive(result sentCopy) *delivery {
	r.inFlight = slices.DeleteFunc(r.inFlight, func(other sentCopy) bool { return other.node == result.node })
	outcome := result.outcome
	for _, node := range refuse(r.notBefore, result.node, outcome) {
		r.nodes.all[node].restUntil(r.notBefore[node]) // Until then, it comes last in each call.
	}
	switch outcome.kind {
	case succeeded, rejected:
		r.won(result.node)
		return &delivery{outcome.response, result.sent, outcome.err, r.isInDoubt()}
	case oldToken:
		r.oldToken = outcome.err
		r.failed(result.node, outcome.err.Error())
	case notDone:
		r.failed(result.node, outcome.reason)
	case foreign:
		r.lostAnswer = true
		r.failed(result.node, outcome.reason)
		r.foreign[result.node] = true
		if !slices.Contains(r.foreign, false) || r.call.copies == never {
			return &delivery{err: &UnexpectedResponseError{r.reason()}, inDoubt: true}
		}
	case mayBeDone:
		r.lostAnswer = true
		reason := outcome.reason
		// At the end of the time, an earlier answer explains more than a request that had no time left.
		if earlier := r.failures[result.node]; earlier != "" && !time.Now().Before(r.budget.startUntil) {
			reason = earlier
		}
		r.failed(result.node, reason)
	}
	if outcome.problem != nil {
		r.problem = outcome.problem
	}
	if r.lostAnswer && r.call.copies == never {
		return &delivery{err: r.err(), inDoubt: true}
	}
	return nil
}

// refuse records when the node, or each node, may get the call again. It returns the nodes that refuse the call until then.
func refuse(notBefore []time.Time, node int, o outcome) (refusing []int) {
	at := time.Now().Add(o.retryAfter)
	for index, known := range notBefore {
		if o.retryAfter > 0 && (index == node || o.isOfCaller) {
			notBefore[index] = later(known, at)
			refusing = append(refusing, index)
		}
	}
	return refusing
}

// failed schedules the next request.
func (r *rounds) failed(node int, reason string) {
	r.failures[node], r.foreign[node] = reason, false
	r.startAt = time.Now()
	if len(r.untried) > 0 && !r.retryAt(r.untried).After(r.startAt) {
		return
	}
	r.untried = nil
	for _, index := range r.nodes.order() {
		if !slices.ContainsFunc(r.inFlight, func(other sentCopy) bool { return other.node == index }) {
			r.untried = append(r.untried, index)
		}
	}
	r.startAt = earlier(r.startAt.Add(r.pause), r.budget.startUntil)
	r.pause = min(r.pause*2, pauseMax)
}

// won prefers the node that answered to those that have not.
func (r *rounds) won(node int) {
	for _, late := range r.inFlight {
		if now().left(late.sent) >= copyAfter {
			r.nodes.all[late.node].rest()
		}
	}
	if len(r.inFlight) == 0 {
		r.nodes.changeCredit(1)
	}
	if r.route != parked {
		r.nodes.prefer(node)
	}
}

// reason returns the last failure of each node.
func (r *rounds) reason() string {
	reasons := slices.DeleteFunc(slices.Clone(r.failures), func(reason string) bool { return reason == "" })
	if len(reasons) == 0 {
		return "no node was tried"
	}
	return strings.Join(reasons, "; ")
}

// err returns the error of a call without an answer.
func (r *rounds) err() error {
	reason := r.reason()
	retryAt := r.retryAt(r.nodes.order())
	switch {
	case r.lostAnswer && r.call.method != http.MethodGet: // a read changes nothing
		return &OutcomeUnknownError{reason, r.problem, retryAt}
	case r.oldToken != nil:
		return r.oldToken
	}
	return &UnavailableError{reason, r.problem, retryAt}
}
