package holdfast_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
)

func openSession(t *testing.T, c *holdfast.Client) *holdfast.Session {
	t.Helper()
	session, err := c.OpenSession(background(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

func TestATransferGivesTheReceiverANewToken(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	session := openSession(t, b)
	ctx, guard := mustLock(t, a, "transfer/1")
	token, err := guard.Transfer(background(t), session.Name(), "")
	if err != nil || token <= guard.Token() {
		t.Fatal(token, err)
	}
	var lost *holdfast.LostError
	if !errors.As(guard.Ensure(), &lost) || lost.Cause != holdfast.CauseTransferred || !errors.As(context.Cause(ctx), &lost) {
		t.Error(guard.Ensure(), context.Cause(ctx))
	}
	if err := guard.Release(); err != nil {
		t.Error("a release after a transfer:", err)
	}
	_, received, err := b.ReceiveTransfer(background(t), "transfer/1", holdfast.Wait(10*time.Second))
	if err != nil || received.Token() != token || received.Mode() != holdfast.Exclusive || received.Ensure() != nil {
		t.Fatal(received, err)
	}
	if _, _, err := a.TryLock(background(t), "transfer/1"); err == nil {
		t.Error("the lock is free")
	}
	if err := received.Downgrade(background(t), holdfast.Shared); err != nil {
		t.Error(err)
	}
	if err := received.Release(); err != nil {
		t.Error(err)
	}
	if state, err := a.LockState(background(t), "transfer/1"); err != nil || state.Held {
		t.Error(state, err)
	}
}

func TestARefusedTransferLeavesTheLock(t *testing.T) {
	a := newClient(t, shared, holdfast.Config{})
	ctx, guard := mustLock(t, a, "transfer/2", holdfast.Owner("job"))
	var argument *holdfast.InvalidArgumentError
	if _, err := guard.Transfer(background(t), "nobody-is-there", ""); !errors.As(err, &argument) {
		t.Error(err)
	}
	if guard.Ensure() != nil || ctx.Err() != nil {
		t.Error(guard.Ensure(), ctx.Err())
	}
	_, again := mustLock(t, a, "transfer/2", holdfast.Owner("job"))
	if _, err := guard.Transfer(background(t), "nobody-is-there", ""); !errors.As(err, &argument) {
		t.Error(err)
	}
	again.Release()
	state, err := a.LockState(background(t), "transfer/2")
	if err != nil || len(state.Holders) != 1 || state.Holders[0].Token != guard.Token() {
		t.Error(state, err)
	}
	guard.Release()
}

func TestNoTransferIsBusyAndAcquiresNothing(t *testing.T) {
	a := newClient(t, shared, holdfast.Config{})
	_, _, err := a.ReceiveTransfer(background(t), "transfer/3", holdfast.Wait(200*time.Millisecond))
	expectCode(t, err, holdfast.CodeNotYet)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, _, err := a.ReceiveTransfer(ctx, "transfer/3"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if state, err := a.LockState(background(t), "transfer/3"); err != nil || state.Held {
		t.Error(state, err)
	}
}

func TestEachShardIsASeparateLock(t *testing.T) {
	a := newClient(t, shared, holdfast.Config{})
	names := map[string]bool{}
	var guards []*holdfast.Guard
	for i := 0; i < 3; i++ {
		_, guard := mustLock(t, a, "shards/1", holdfast.Shards(3), holdfast.Wait(0))
		names[guard.Name()] = true
		guards = append(guards, guard)
	}
	if !names["shards/1/0"] || !names["shards/1/1"] || !names["shards/1/2"] {
		t.Fatal(names)
	}
	if _, _, err := a.TryLock(background(t), "shards/1", holdfast.Shards(3)); err == nil {
		t.Error("a fourth shard")
	}
	number := guards[1].Shard()
	guards[1].Release()
	_, again := mustLock(t, a, "shards/1", holdfast.Shard(number), holdfast.InMode(holdfast.Upgradable), holdfast.Wait(0))
	if token, err := again.Upgrade(background(t), time.Second); err != nil || token <= guards[1].Token() || again.Shard() != number {
		t.Error(token, err)
	}
	for _, guard := range []*holdfast.Guard{guards[0], again, guards[2]} {
		if err := guard.Release(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := a.LockMany(background(t), []string{"shards/2", "shards/3"}, holdfast.Shards(2)); err == nil {
		t.Error("shards of several locks")
	}
}

func TestAGroupListsItsMembersUntilTheyLeave(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	group := a.Group("web/go")
	watch, err := b.Group("web/go").Watch(background(t))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(wanted map[string]string) {
		t.Helper()
		if seen := <-watch.Changes(); !maps.Equal(seen, wanted) {
			t.Error(seen, wanted)
		}
		if members, err := group.Members(background(t)); err != nil || !maps.Equal(members, wanted) {
			t.Error(members, err)
		}
	}
	join := func(g *holdfast.Group, value string) *holdfast.Membership {
		t.Helper()
		member, err := g.Join(background(t), value)
		if err != nil {
			t.Fatal(err)
		}
		return member
	}
	expect(map[string]string{})
	one := join(group, "10.0.0.1:80")
	expect(map[string]string{one.Session(): "10.0.0.1:80"})
	if err := one.SetValue(background(t), "10.0.0.1:81"); err != nil {
		t.Fatal(err)
	}
	expect(map[string]string{one.Session(): "10.0.0.1:81"})
	below := join(a.Group("web/go/eu"), "of another group")
	two := join(b.Group("web/go"), "10.0.0.2:80")
	expect(map[string]string{one.Session(): "10.0.0.1:81", two.Session(): "10.0.0.2:80"})
	for range []int{1, 2} {
		if err := one.Leave(background(t)); err != nil {
			t.Error(err)
		}
	}
	expect(map[string]string{two.Session(): "10.0.0.2:80"})
	var lost *holdfast.LostError
	if !errors.As(one.SetValue(background(t), "late"), &lost) || two.Ensure() != nil {
		t.Error(one.Ensure(), two.Ensure())
	}
	below.Leave(background(t))
	// The end of the session ends the membership.
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if members, err := group.Members(background(t)); err != nil || len(members) != 0 {
		t.Error(members, err)
	}
}
