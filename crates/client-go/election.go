package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrNoLeader is the error of Election.Leader while there is no leader.
var ErrNoLeader = errors.New("holdfast: the election has no leader")

// An Election has many candidates and one leader, with a value that every client can read. Its methods have the names of
// etcd's package concurrency. One Election is one candidate.
type Election struct {
	client  *Client
	name    string
	options []LockOption

	mu    sync.Mutex
	guard *Guard
}

// A Leader is the leader of an election.
type Leader struct {
	Session string `json:"session"`
	Owner   string `json:"owner"`
	Token   int64  `json:"token"`
	Value   string `json:"value"`
}

// A LeaderChange is a change of an election.
type LeaderChange struct {
	Leader   *Leader // nil if there is no leader
	Revision int64
	// Gap: the cluster no longer has some changes. The next change is the present leader.
	Gap bool
}

// Election returns a candidate of an election. The options are those of a lock.
func (c *Client) Election(name string, options ...LockOption) *Election {
	return &Election{client: c, name: name, options: options}
}

// Campaign returns when this candidate leads. The context that it returns is cancelled at the loss of the leadership, with a
// *LostError as its cause. The end of ctx withdraws a waiting candidate.
func (e *Election) Campaign(ctx context.Context, value string) (context.Context, error) {
	if guard := e.Guard(); guard != nil && guard.Ensure() == nil {
		return guard.Context(), e.Proclaim(ctx, value)
	}
	leading, guard, err := e.client.Lock(ctx, "elections/"+e.name, append(slices.Clone(e.options), Value(value))...)
	if err != nil {
		return ctx, err
	}
	e.mu.Lock()
	earlier := e.guard
	e.guard = guard
	e.mu.Unlock()
	if earlier != nil {
		earlier.Release()
	}
	return leading, nil
}

// Guard returns the guard of the leadership, with its token and deadline, or nil before Campaign and after Resign.
func (e *Election) Guard() *Guard {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guard
}

// Proclaim replaces the value of the leader, with the same token. If the leadership was lost, it never acquires it again.
func (e *Election) Proclaim(ctx context.Context, value string) error {
	guard := e.Guard()
	if guard == nil {
		return invalid("this candidate of election %q does not lead: call Campaign first", e.name)
	}
	return guard.SetValue(ctx, value)
}

// Resign gives the leadership up. The next candidate leads in the same step.
func (e *Election) Resign() error {
	e.mu.Lock()
	guard := e.guard
	e.guard = nil
	e.mu.Unlock()
	if guard == nil {
		return nil
	}
	return guard.Release()
}

// Leader returns the leader, or ErrNoLeader.
func (e *Election) Leader(ctx context.Context) (*Leader, error) {
	if err := checkName("an election", e.name); err != nil {
		return nil, err
	}
	var state struct {
		Leader *Leader `json:"leader"`
	}
	if err := e.client.calls.do(ctx, get(resource("elections", e.name), nil), &state, "election"); err != nil {
		return nil, err
	}
	if state.Leader == nil {
		return nil, ErrNoLeader
	}
	return state.Leader, nil
}

// Observe returns a channel with the present leader and then each change, until the context ends or the cluster rejects the
// call. The channel is then closed. The client continues at another node when one fails.
func (e *Election) Observe(ctx context.Context) <-chan LeaderChange {
	changes := make(chan LeaderChange)
	stream := eventStream{calls: e.client.calls, call: get(resource("elections", e.name), nil), node: -1}
	go func() {
		defer close(changes)
		err := stream.run(ctx, func(event serverEvent) error {
			change, isChange, err := leaderChange(event)
			if err != nil || !isChange {
				return err
			}
			select {
			case changes <- change:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if ctx.Err() == nil {
			e.client.log.Warn("holdfast: observing an election ended", "election", e.name, "error", err)
		}
	}()
	return changes
}

func leaderChange(event serverEvent) (LeaderChange, bool, error) {
	switch event.name {
	case "leader", "vacant":
		var change LeaderChange
		var body struct {
			Leader   *Leader `json:"leader"`
			Revision int64   `json:"revision"`
		}
		err := decode([]byte(event.data), &body)
		change.Leader, change.Revision = body.Leader, body.Revision
		return change, true, err
	case "gap":
		return LeaderChange{Gap: true, Revision: event.id}, true, nil
	}
	return LeaderChange{}, false, nil
}

// SetValue replaces the text that readers of the lock see, with the same token. If the lock was lost, it never acquires it
// again. It waits for the end of an Upgrade, which replaces the token.
func (g *Guard) SetValue(ctx context.Context, value string) error {
	if err := g.Ensure(); err != nil {
		return err
	}
	change, err := g.beginChange(ctx, g.Mode())
	if err != nil {
		return err
	}
	defer change.end()
	d, grant := g.session.changeOnce(ctx, g.entry, query{}.with(paramValue, value))
	switch {
	case d.err == nil && (grant.Token == g.Token() || g.session.followUpgrade(grant.Lock, grant.Ticket, grant.Token)):
		g.session.acknowledge(grant.acknowledgement(d.sent))
		return nil
	case d.err == nil, rejectedWith(d.err, CodeNotHolder, CodeAttemptOver) != nil:
		g.session.loseEntry(g.entry, &loss{cause: CauseReleasedElsewhere})
		return g.Ensure()
	case ctx.Err() == nil && g.Ensure() != nil:
		return g.Ensure()
	}
	return d.err
}
