package holdfast

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// copyAfter: another node gets a copy of a call after this time without an answer.
	copyAfter = 300 * time.Millisecond
	// copyAfterSlow is the same while most calls take that long: copies would make a slow cluster slower.
	copyAfterSlow = time.Second
	// An answer without a copy earns 1 credit, and a copy costs this many.
	copyCost  = 10
	creditMax = 100
	// A node rests this long after its first failure. Each further failure in sequence doubles the time.
	restMin = time.Second
	restMax = 10 * time.Second
	// A node that holds a call is pinged after pingFirst, then after twice the time, up to pingMax.
	pingFirst   = 400 * time.Millisecond
	pingMax     = 15 * time.Second
	pingTimeout = 600 * time.Millisecond
	// aliveFor: a node that answered within this time needs no ping before a call that may have only one copy.
	aliveFor = time.Second
	pingPath = "/livez"
)

var errSilent = errors.New("the node stopped answering")

// A nodes has the nodes of one cluster: which one a call tries first, which ones rest after a failure, and which ones
// still answer. Every answer names its node and the leader, and calls try the leader first.
type nodes struct {
	transport *transport
	all       []*node
	preferred atomic.Int64 // the index of the node that answered last
	leader    atomic.Int64 // the id of the leader in the last answer; 0 if the answer had none
	credit    atomic.Int64
	accepted  atomic.Bool // whether a node has accepted a call, and with it the access token
}

type node struct {
	base    string
	id      atomic.Int64 // from its last answer; 0 before
	waiting atomic.Int64 // the calls that wait at this node

	mu         sync.Mutex
	answeredAt time.Time
	restsUntil time.Time
	failures   int
}

func newNodes(t *transport, bases []string, random uint8) *nodes {
	n := &nodes{transport: t}
	for _, base := range bases {
		n.all = append(n.all, &node{base: base})
	}
	n.preferred.Store(int64(int(random) % len(bases)))
	n.credit.Store(creditMax)
	return n
}

func (n *node) rests(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Before(n.restsUntil)
}

func (n *node) answeredWithin(d time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.answeredAt.IsZero() && time.Since(n.answeredAt) < d
}

func (n *node) answered() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answeredAt, n.restsUntil, n.failures = time.Now(), time.Time{}, 0
}

// rest records that the node gave no answer, or a later one than another node.
func (n *node) rest() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restsUntil = time.Now().Add(min(restMin<<min(n.failures, 4), restMax))
	n.failures++
}

// restUntil records that the node refused a call until then. An answer ends the rest.
func (n *node) restUntil(at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.restsUntil = later(n.restsUntil, at)
}

// order returns the nodes in the order in which a call tries them: the leader first, those that rest last. While the
// address of the leader is unknown, addresses without an answer come first, because the leader is one of them.
func (n *nodes) order() []int {
	count, first, now := len(n.all), int(n.preferred.Load()), time.Now()
	order := make([]int, count)
	for turn := range order {
		order[turn] = (first + turn) % count
	}
	if count == 1 {
		return order
	}
	leader, wanted := n.leader.Load(), int64(0)
	for _, node := range n.all {
		if node.id.Load() == leader {
			wanted = leader
		}
	}
	rank := func(index int) int {
		rank := 0
		if n.all[index].rests(now) {
			rank += 2
		}
		if leader != 0 && n.all[index].id.Load() != wanted {
			rank++
		}
		return rank
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// orderOfIdle returns the nodes with the fewest waiting calls first. A keepalive that is parked there delivers a grant
// although the node of the acquire is frozen.
func (n *nodes) orderOfIdle() []int {
	order, first, now := n.order(), int(n.preferred.Load()), time.Now()
	rank := func(index int) int64 {
		rank := n.all[index].waiting.Load() * 2
		if n.all[index].rests(now) {
			rank += 1 << 40
		}
		if index == first {
			rank++
		}
		return rank
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

func (n *nodes) prefer(index int) { n.preferred.Store(int64(index)) }

// isFirstAlive reports whether the first node of the order has just answered another call.
func (n *nodes) isFirstAlive() bool { return n.all[n.order()[0]].answeredWithin(aliveFor) }

// copyDelay returns how long a call waits for an answer before another node gets a copy.
func (n *nodes) copyDelay() time.Duration {
	if n.credit.Load() >= copyCost {
		return copyAfter
	}
	return copyAfterSlow
}

func (n *nodes) changeCredit(change int64) {
	for {
		credit := n.credit.Load()
		if n.credit.CompareAndSwap(credit, min(max(credit+change, 0), creditMax)) {
			return
		}
	}
}

// learn reads from an answer which node sent it, and which node leads.
func (n *nodes) learn(index int, header http.Header) {
	id, err := strconv.ParseInt(header.Get("Holdfast-Node"), 10, 64)
	if err != nil {
		return
	}
	n.all[index].id.Store(id)
	leader, err := strconv.ParseInt(header.Get("Holdfast-Leader"), 10, 64)
	if err != nil {
		leader = 0
	}
	n.leader.Store(leader)
}

// mayGetToken reports whether a node rejected a token that was accepted before, and whose file may have another one now.
func (n *nodes) mayGetToken(err error) bool {
	return isUnauthenticated(err) && n.accepted.Load() && n.transport.token.readAgain()
}

// attempt sends a call to one node. A cancelled ctx says nothing about the node.
func (n *nodes) attempt(ctx context.Context, c *call, timeout time.Duration, index int) outcome {
	node := n.all[index]
	answer, failure := n.transport.send(ctx, node.base, c, timeout)
	if failure != nil {
		if ctx.Err() == nil {
			node.rest()
		}
		return failedOutcome(node.base, failure)
	}
	return n.judge(index, c, answer)
}

func failedOutcome(base string, failure *sendError) outcome {
	kind := notDone
	if failure.mayBeDone {
		kind = mayBeDone
	}
	return outcome{kind: kind, reason: base + ": " + failure.reason}
}

// judge learns from an answer, and classifies it.
func (n *nodes) judge(index int, c *call, answer *response) outcome {
	node := n.all[index]
	result := classify(node.base, answer)
	if result.kind == foreign {
		node.rest()
		return result
	}
	node.answered()
	n.learn(index, answer.header)
	switch {
	case result.kind == succeeded && c.path != pingPath:
		n.accepted.Store(true)
	case result.kind == rejected && n.mayGetToken(result.err):
		result.kind = oldToken
	}
	return result
}

// attemptWhileAlive sends a call that the node may hold for long. It gives up when the node does not answer one of the
// first pings.
func (n *nodes) attemptWhileAlive(ctx context.Context, c *call, timeout time.Duration, index, pings int) outcome {
	node := n.all[index]
	node.waiting.Add(1)
	defer node.waiting.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := n.watchSilence(ctx, index, pings, func() { cancel(errSilent) })
	defer stop()
	result := n.attempt(ctx, c, timeout, index)
	if errors.Is(context.Cause(ctx), errSilent) && result.kind >= notDone {
		return outcome{kind: mayBeDone, reason: node.base + ": " + errSilent.Error()}
	}
	return result
}

// watchSilence calls silent when the node does not answer one of the next pings. It does nothing without another node.
func (n *nodes) watchSilence(ctx context.Context, index, pings int, silent func()) (stop func() bool) {
	if len(n.all) == 1 {
		return func() bool { return true }
	}
	node, interval := n.all[index], pingFirst
	var timer *time.Timer
	ready := make(chan struct{})
	defer close(ready)
	timer = time.AfterFunc(interval, func() {
		<-ready
		if ctx.Err() != nil {
			return
		}
		if !node.answeredWithin(interval) && !n.isAlive(ctx, node) {
			if ctx.Err() == nil {
				node.rest()
				silent()
			}
			return
		}
		interval = min(interval*2, pingMax)
		if pings--; pings > 0 {
			timer.Reset(interval)
		}
	})
	return timer.Stop
}

// isAlive reports whether a node answers a ping. Any answer counts.
func (n *nodes) isAlive(ctx context.Context, node *node) bool {
	ping := get(pingPath, nil)
	_, failure := n.transport.send(ctx, node.base, &ping, pingTimeout)
	if failure == nil {
		node.answered()
	}
	return failure == nil
}
