package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
)

// do executes a request.
func (a *adapter) do(ctx context.Context, r *request) (fields, error) {
	switch r.Do {
	case "info":
		return fields{"language": "go", "unsupported": []string{"fork"}}, nil
	case "describe":
		return describe()
	case "client":
		return nil, a.newClient(r)
	case "cancel":
		a.mu.Lock()
		defer a.mu.Unlock()
		if cancel := a.pending[r.Request]; cancel != nil {
			cancel()
		}
		return nil, nil
	case "unobserve":
		return nil, a.stop(r.Observer)
	case "unwatch":
		return nil, a.stop(r.Watcher)
	case "shutdown":
		a.closeAll()
		return nil, nil
	case "release", "resign", "ensure", "remaining", "report_progress":
		return a.onHeld(r)
	case "group_set_value", "group_leave":
		return nil, a.onMember(ctx, r)
	case "upgrade", "downgrade", "release_permits", "headers", "transfer":
		return a.onGuard(ctx, r)
	}
	client, err := a.client(r.Client)
	if err != nil {
		return nil, err
	}
	switch r.Do {
	case "acquire", "campaign":
		return a.acquire(ctx, client, r)
	case "acquire_many":
		return a.acquireMany(ctx, client, r)
	case "observe", "watch", "group_watch":
		return nil, a.follow(client, r)
	case "close":
		return nil, client.Close()
	case "open_session", "receive_transfer", "group_join", "group_members":
		return a.onSession(ctx, client, r)
	}
	return a.call(ctx, client, r)
}

func (a *adapter) newClient(r *request) error {
	client, err := holdfast.New(holdfast.Config{
		Addresses: r.Addresses, TTL: ms(r.TTLMS), Session: r.Session, SessionPrefix: r.SessionPrefix, Labels: r.Labels,
		RequestTimeout: ms(r.RequestTimeoutMS), CA: r.CA, Certificate: r.Certificate, Key: r.Key,
		AccessToken: r.AccessToken, AccessTokenFile: r.AccessTokenFile,
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clients[r.Name] = client
	return nil
}

func (a *adapter) stop(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if stop := a.stops[name]; stop != nil {
		stop()
		delete(a.stops, name)
	}
	return nil
}

func options(r *request) []holdfast.LockOption {
	var o []holdfast.LockOption
	if r.WaitMS != nil {
		o = append(o, holdfast.Wait(ms(*r.WaitMS)))
	}
	if r.Mode != "" {
		o = append(o, holdfast.InMode(holdfast.Mode(r.Mode)))
	}
	if r.Reentrant != nil {
		o = append(o, holdfast.Reentrant(*r.Reentrant))
	}
	if r.Shard != nil {
		o = append(o, holdfast.Shard(*r.Shard))
	}
	return append(o, holdfast.Shards(r.Shards), holdfast.Permits(r.Permits, r.Limit), holdfast.Priority(r.Priority), holdfast.Owner(r.Owner),
		holdfast.QueueMax(r.QueueMax), holdfast.MaxHold(ms(r.MaxHoldMS)), holdfast.MinHold(ms(r.MinHoldMS)),
		holdfast.Value(r.Value), holdfast.ProgressTimeout(ms(r.ProgressTimeoutMS)), holdfast.TTL(ms(r.TTLMS)))
}

func (a *adapter) acquire(ctx context.Context, client *holdfast.Client, r *request) (fields, error) {
	lock := r.Lock
	if r.Do == "campaign" {
		lock = "elections/" + r.Election
	}
	_, guard, err := client.Lock(ctx, lock, options(r)...)
	if err != nil {
		return nil, err
	}
	return a.kept(r.Guard, guard), nil
}

// kept keeps the guard of one lock, and returns the fields of its answer.
func (a *adapter) kept(name string, guard *holdfast.Guard) fields {
	a.keep(name, guard)
	go a.reportLoss(name, guard.Lost(), map[string]int64{guard.Name(): guard.Token()})
	go a.reportRequests(name, guard)
	return fields{"token": guard.Token(), "session": guard.Session(), "lock": guard.Name()}
}

func (a *adapter) acquireMany(ctx context.Context, client *holdfast.Client, r *request) (fields, error) {
	_, guard, err := client.LockMany(ctx, r.Locks, options(r)...)
	if err != nil {
		return nil, err
	}
	a.keep(r.Guard, guard)
	go a.reportLoss(r.Guard, guard.Lost(), guard.Tokens())
	return fields{"tokens": guard.Tokens(), "session": guard.Session()}, nil
}

func (a *adapter) keep(name string, guard held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.guards[name] = guard
}

func (a *adapter) reportLoss(name string, losses <-chan *holdfast.LostError, tokens map[string]int64) {
	for lost := range losses {
		a.print(fields{
			"event": "lost", "guard": name, "lock": lost.Lock, "token": tokens[lost.Lock], "cause": lost.Cause, "reason": lost.Reason,
		})
	}
}

func (a *adapter) reportRequests(name string, guard *holdfast.Guard) {
	for {
		select {
		case request := <-guard.ReleaseRequested():
			a.print(fields{
				"event": "release-requested", "guard": name, "lock": guard.Name(), "reason": request.Reason,
				"revoke": request.Revoke, "remaining_ms": request.Remaining().Milliseconds(),
			})
		case <-guard.Context().Done():
			return
		}
	}
}

func (a *adapter) onHeld(r *request) (fields, error) {
	guard, err := a.held(r.Guard)
	if err != nil {
		return nil, err
	}
	switch r.Do {
	case "ensure":
		return nil, guard.Ensure()
	case "remaining":
		return fields{"remaining_ms": guard.Remaining().Milliseconds()}, nil
	case "report_progress":
		return nil, guard.ReportProgress()
	}
	return nil, guard.Release()
}

func (a *adapter) onGuard(ctx context.Context, r *request) (fields, error) {
	guard, err := a.guard(r.Guard)
	if err != nil {
		return nil, err
	}
	switch r.Do {
	case "headers":
		headers := fields{}
		for name, values := range guard.Headers() {
			headers[name] = values[0]
		}
		return fields{"headers": headers}, nil
	case "upgrade":
		token, err := guard.Upgrade(ctx, r.wait())
		return fields{"token": token}, err
	case "transfer":
		token, err := guard.Transfer(ctx, r.To, r.Owner)
		return fields{"token": token}, err
	case "downgrade":
		mode := holdfast.Shared
		if r.Mode != "" {
			mode = holdfast.Mode(r.Mode)
		}
		return nil, guard.Downgrade(ctx, mode)
	}
	return nil, guard.ReleasePermits(ctx, r.Permits)
}

func (a *adapter) follow(client *holdfast.Client, r *request) error {
	ctx, stop := context.WithCancel(context.Background())
	name := r.Observer + r.Watcher
	a.mu.Lock()
	a.stops[name] = stop
	a.mu.Unlock()
	if r.Do == "observe" {
		go a.reportLeaders(name, client.Election(r.Election).Observe(ctx))
		return nil
	}
	if r.Do == "group_watch" {
		watch, err := client.Group(r.Group).Watch(ctx)
		if err != nil {
			return errors.Join(err, a.stop(name))
		}
		go a.reportMembers(name, watch.Changes())
		return nil
	}
	watch, err := client.Watch(ctx, r.Prefix)
	if err != nil {
		return errors.Join(err, a.stop(name))
	}
	go a.reportChanges(name, watch.Changes())
	return nil
}

func (a *adapter) reportLeaders(name string, changes <-chan holdfast.LeaderChange) {
	for change := range changes {
		if change.Gap {
			a.print(fields{"event": "gap", "observer": name})
			continue
		}
		a.print(fields{"event": "leader", "observer": name, "leader": change.Leader})
	}
}

func (a *adapter) reportChanges(name string, changes <-chan holdfast.Change) {
	for change := range changes {
		if change.Gap {
			a.print(fields{"event": "gap", "watcher": name})
			continue
		}
		a.print(fields{"event": "change", "watcher": name, "path": change.Path, "kind": change.Kind})
	}
}

func (a *adapter) reportMembers(name string, changes <-chan map[string]string) {
	for members := range changes {
		a.print(fields{"event": "members", "watcher": name, "members": members})
	}
}

// onSession executes a request of the session of a client or of its groups.
func (a *adapter) onSession(ctx context.Context, client *holdfast.Client, r *request) (fields, error) {
	switch r.Do {
	case "open_session":
		session, err := client.OpenSession(ctx)
		if err != nil {
			return nil, err
		}
		return fields{"session": session.Name()}, nil
	case "receive_transfer":
		_, guard, err := client.ReceiveTransfer(ctx, r.Lock, options(r)...)
		if err != nil {
			return nil, err
		}
		return a.kept(r.Guard, guard), nil
	case "group_members":
		members, err := client.Group(r.Group).Members(ctx)
		return fields{"members": members}, err
	}
	membership, err := client.Group(r.Group).Join(ctx, r.Value)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.members[r.Member] = membership
	return fields{"session": membership.Session()}, nil
}

func (a *adapter) onMember(ctx context.Context, r *request) error {
	a.mu.Lock()
	membership := a.members[r.Member]
	a.mu.Unlock()
	if membership == nil {
		return fmt.Errorf("there is no member %q", r.Member)
	}
	if r.Do == "group_leave" {
		return membership.Leave(ctx)
	}
	return membership.SetValue(ctx, r.Value)
}

// call executes a request without a guard.
func (a *adapter) call(ctx context.Context, client *holdfast.Client, r *request) (fields, error) {
	version := int64(holdfast.AnyVersion)
	if r.Version != nil {
		version = *r.Version
	}
	switch r.Do {
	case "latch_set":
		_, err := client.Latch(r.Name).Create(ctx, r.Count)
		return nil, err
	case "latch_count_down":
		key := r.Key
		if key == "" {
			key = fmt.Sprintf("key-%d-%d", os.Getpid(), r.ID)
		}
		left, err := client.Latch(r.Name).CountDown(ctx, key)
		return fields{"left": left}, err
	case "latch_wait":
		_, err := client.Latch(r.Name).Wait(ctx, r.wait())
		return nil, err
	case "barrier_wait":
		_, err := client.Barrier(r.Name, r.Parties).Wait(ctx, r.wait())
		return nil, err
	case "double_barrier_enter":
		inside, err := client.DoubleBarrier(r.Name, r.Parties).Enter(ctx, r.wait())
		if err == nil {
			a.mu.Lock()
			a.inside[r.Client+"/"+r.Name] = inside
			a.mu.Unlock()
		}
		return nil, err
	case "double_barrier_leave":
		a.mu.Lock()
		inside := a.inside[r.Client+"/"+r.Name]
		a.mu.Unlock()
		if inside == nil {
			return nil, fmt.Errorf("%s is not inside %q", r.Client, r.Name)
		}
		return nil, inside.Leave(ctx, r.wait())
	case "counter_add":
		value, err := client.Counter(r.Name).Add(ctx, r.Add)
		return fields{"value": value}, err
	case "tree_get":
		node, err := client.Get(ctx, r.Path)
		if problem := holdfast.ProblemOf(err); problem != nil && problem.Code == "not-found" {
			return fields{"value": nil, "version": nil}, nil
		}
		if err != nil {
			return nil, err
		}
		return fields{"value": string(node.Data), "version": node.Version}, nil
	case "tree_put":
		version, err := client.Put(ctx, r.Path, []byte(r.Value), version)
		return fields{"version": version}, err
	case "tree_delete":
		return nil, client.Delete(ctx, r.Path, version)
	case "lock_state":
		state, err := client.LockState(ctx, r.Lock)
		if err != nil {
			return nil, err
		}
		holders := []fields{}
		for _, holder := range state.Holders {
			holders = append(holders, fields{"session": holder.Session, "token": holder.Token})
		}
		return fields{"holders": holders, "waiters": state.Waiters}, nil
	case "force_release":
		ended, err := client.ForceRelease(ctx, r.Lock, r.Token, r.Reason)
		return fields{"ended": ended}, err
	case "request_release":
		deadline := ms(r.DeadlineMS)
		asked, err := client.RequestRelease(ctx, r.Lock, r.Token, r.Reason, deadline, r.Revoke)
		return fields{"asked": asked}, err
	}
	return nil, fmt.Errorf("%w: %s", errUnsupported, r.Do)
}
