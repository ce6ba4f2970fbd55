package holdfast_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
	"github.com/holdfast/holdfast/crates/client-go/fencesql"
	"github.com/holdfast/holdfast/crates/client-go/internal/testcluster"
)

// shared is the cluster of the tests that break no node; nil without HOLDFAST_BIN.
var shared *testcluster.Cluster

func TestMain(m *testing.M) {
	cluster, stop, err := testcluster.Run(3)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	shared = cluster
	code := m.Run()
	stop()
	os.Exit(code)
}

func newClient(t *testing.T, cluster *testcluster.Cluster, config holdfast.Config) *holdfast.Client {
	t.Helper()
	if cluster == nil {
		t.Skip("HOLDFAST_BIN does not name the program holdfast")
	}
	config.Addresses = cluster.Addresses
	client, err := holdfast.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func mustLock(t *testing.T, c *holdfast.Client, name string, options ...holdfast.LockOption) (context.Context, *holdfast.Guard) {
	t.Helper()
	ctx, guard, err := c.Lock(background(t), name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, guard
}

// awaitLoss returns the cause of a loss.
func awaitLoss(t *testing.T, ctx context.Context, within time.Duration) *holdfast.LostError {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(within):
		t.Fatalf("no loss within %v", within)
	}
	var lost *holdfast.LostError
	if !errors.As(context.Cause(ctx), &lost) {
		t.Fatal(context.Cause(ctx))
	}
	return lost
}

func expectCode(t *testing.T, err error, code string) {
	t.Helper()
	if problem := holdfast.ProblemOf(err); problem == nil || problem.Code != code {
		t.Errorf("not %s: %v", code, err)
	}
}

func TestLockExcludesAndTokensGrow(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	ctx, first := mustLock(t, a, "orders/ü x", holdfast.Wait(10*time.Second))
	if err := first.Ensure(); err != nil || first.Remaining() < 20*time.Second {
		t.Fatal(err, first)
	}
	for _, client := range []*holdfast.Client{a, b} {
		_, _, err := client.TryLock(background(t), "orders/ü x")
		var busy *holdfast.BusyError
		if !errors.As(err, &busy) || busy.Holder == nil || busy.Holder.Token != first.Token() {
			t.Fatal(err)
		}
	}
	_, _, err := b.Lock(background(t), "orders/ü x", holdfast.Wait(300*time.Millisecond))
	expectCode(t, err, "wait-timeout")
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(context.Cause(ctx), holdfast.ErrReleased) || !errors.Is(first.Ensure(), holdfast.ErrReleased) {
		t.Error(context.Cause(ctx), first.Ensure())
	}
	if err := first.Release(); err != nil {
		t.Error("a repeated release:", err)
	}
	_, second := mustLock(t, b, "orders/ü x", holdfast.Wait(0))
	if second.Token() <= first.Token() {
		t.Error(first.Token(), second.Token())
	}
	second.Release()
}

func TestManyGoroutinesCountUnderOneLock(t *testing.T) {
	clients := []*holdfast.Client{newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})}
	var wait sync.WaitGroup
	count, newest := 0, int64(0)
	for i := 0; i < 20; i++ {
		i := i
		wait.Add(1)
		go func() {
			defer wait.Done()
			_, guard, err := clients[i%2].Lock(background(t), "count")
			if err != nil {
				t.Error(err)
				return
			}
			if count++; guard.Token() <= newest {
				t.Error("tokens grow", guard.Token(), newest)
			}
			newest = guard.Token()
			if err := guard.Release(); err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
	if count != 20 {
		t.Error(count)
	}
}

func TestACancelledAcquireLeavesTheQueue(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	_, guard := mustLock(t, a, "cancelled")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, _, err := b.Lock(ctx, "cancelled"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	awaitState(t, a, "cancelled", func(s *holdfast.LockState) bool { return s.Waiters == 0 })

	ctx, cancel = context.WithCancel(context.Background())
	go b.Lock(ctx, "cancelled")
	awaitState(t, a, "cancelled", func(s *holdfast.LockState) bool { return s.Waiters == 1 })
	_, _, err := newClient(t, shared, holdfast.Config{}).Lock(background(t), "cancelled", holdfast.QueueMax(1))
	var busy *holdfast.BusyError
	if expectCode(t, err, "lock-busy"); !errors.As(err, &busy) {
		t.Error(err)
	}
	cancel()
	awaitState(t, a, "cancelled", func(s *holdfast.LockState) bool { return s.Waiters == 0 })
	guard.Release()
	awaitState(t, a, "cancelled", func(s *holdfast.LockState) bool { return !s.Held })
}

func awaitState(t *testing.T, c *holdfast.Client, lock string, is func(*holdfast.LockState) bool) {
	t.Helper()
	var state *holdfast.LockState
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		var err error
		if state, err = c.LockState(background(t), lock); err != nil {
			t.Fatal(err)
		}
		if is(state) {
			return
		}
	}
	t.Fatalf("%+v", state)
}

func TestLosses(t *testing.T) {
	client, operator := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	t.Run("force-released", func(t *testing.T) {
		ctx, guard := mustLock(t, client, "forced")
		if ended, err := operator.ForceRelease(background(t), "forced", guard.Token(), "host burnt down"); err != nil || ended != 1 {
			t.Fatal(ended, err)
		}
		lost := awaitLoss(t, ctx, 2*time.Second)
		if lost.Cause != holdfast.CauseForceReleased || lost.Reason != "host burnt down" || lost.Token != guard.Token() {
			t.Error(lost)
		}
		if !errors.As(guard.Ensure(), &lost) || !errors.As(guard.Release(), &lost) {
			t.Error("a lost guard stays lost")
		}
	})
	t.Run("stalled", func(t *testing.T) {
		ctx, guard := mustLock(t, client, "stalled", holdfast.ProgressTimeout(400*time.Millisecond))
		time.Sleep(250 * time.Millisecond)
		if err := guard.ReportProgress(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
		if err := guard.Ensure(); err != nil {
			t.Fatal(err)
		}
		if lost := awaitLoss(t, ctx, time.Second); lost.Cause != holdfast.CauseStalled {
			t.Error(lost)
		}
		awaitState(t, operator, "stalled", func(s *holdfast.LockState) bool { return !s.Held })
		guard.Release()
	})
	t.Run("max-hold-exceeded", func(t *testing.T) {
		ctx, guard := mustLock(t, client, "long", holdfast.MaxHold(500*time.Millisecond))
		defer guard.Release()
		if lost := awaitLoss(t, ctx, time.Second); lost.Cause != holdfast.CauseMaxHoldExceeded {
			t.Error(lost)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		ctx, guard := mustLock(t, client, "wanted")
		defer guard.Release()
		if asked, err := operator.RequestRelease(background(t), "wanted", 0, "maintenance", time.Second, true); err != nil || asked != 1 {
			t.Fatal(asked, err)
		}
		select {
		case request := <-guard.ReleaseRequested():
			if request.Reason != "maintenance" || !request.Revoke || request.Remaining() > time.Second {
				t.Error(request)
			}
		case <-time.After(time.Second):
			t.Error("no release request")
		}
		if lost := awaitLoss(t, ctx, 2*time.Second); lost.Cause != holdfast.CauseRevoked || lost.Reason != "maintenance" {
			t.Error(lost)
		}
	})
	t.Run("session-ended", func(t *testing.T) {
		ended := newClient(t, shared, holdfast.Config{})
		ctx, guard := mustLock(t, ended, "ended")
		if err := ended.Close(); err != nil {
			t.Fatal(err)
		}
		if lost := awaitLoss(t, ctx, time.Second); lost.Cause != holdfast.CauseSessionEnded {
			t.Error(lost)
		}
		guard.Release()
		awaitState(t, operator, "ended", func(s *holdfast.LockState) bool { return !s.Held })
	})
}

func TestModes(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	_, editor := mustLock(t, a, "page", holdfast.InMode(holdfast.Upgradable))
	_, reader := mustLock(t, b, "page", holdfast.InMode(holdfast.Shared), holdfast.Wait(0))
	before := editor.Token()
	_, err := editor.Upgrade(background(t), 200*time.Millisecond)
	var busy *holdfast.BusyError
	if !errors.As(err, &busy) || editor.Mode() != holdfast.Upgradable || editor.Ensure() != nil {
		t.Fatal(err, editor)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := editor.Upgrade(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- reader.Release() }()
	token, err := editor.Upgrade(background(t), 10*time.Second)
	if err != nil || token <= before || editor.Token() != token || editor.Mode() != holdfast.Exclusive {
		t.Fatal(err, token, editor)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, _, err := b.TryLock(background(t), "page", holdfast.InMode(holdfast.Shared)); err == nil {
		t.Error("a reader beside an exclusive holder")
	}
	for i := 0; i < 2; i++ { // The cluster accepts the mode that the hold has.
		if err := editor.Downgrade(background(t), holdfast.Shared); err != nil || editor.Token() != token {
			t.Fatal(err)
		}
	}
	_, reader = mustLock(t, b, "page", holdfast.InMode(holdfast.Shared), holdfast.Wait(0))
	if _, err := editor.Upgrade(background(t), 0); err == nil {
		t.Error("a shared hold became exclusive beside another")
	}
	var wrong *holdfast.InvalidArgumentError
	if err := editor.Downgrade(background(t), holdfast.Exclusive); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if err := errors.Join(editor.Ensure(), editor.Release(), reader.Release()); err != nil {
		t.Error(err)
	}
}

func TestSemaphoreAndOwners(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	_, two, err := a.Semaphore("pool", 3).Acquire(background(t), 2)
	if err != nil || len(two.Slots()) != 2 {
		t.Fatal(err, two)
	}
	if _, _, err := b.Semaphore("pool", 3).Acquire(background(t), 2, holdfast.Wait(0)); err == nil {
		t.Fatal("too many permits")
	}
	if err := two.ReleasePermits(background(t), 1); err != nil || len(two.Slots()) != 1 {
		t.Fatal(err, two.Slots())
	}
	var invalid *holdfast.InvalidArgumentError
	if err := two.ReleasePermits(background(t), 1); !errors.As(err, &invalid) || two.Permits() != 1 {
		t.Fatal("a guard keeps a permit", err, two.Permits())
	}
	_, other, err := b.Semaphore("pool", 3).Acquire(background(t), 2, holdfast.Wait(0))
	if err != nil {
		t.Fatal(err)
	}
	if of := fencesql.Of(other); of.Resource != "pool" || of.Floor != two.Token() {
		t.Error("the floor is the token of the other permit", of)
	}
	slot := other.Slots()[1]
	if of, err := fencesql.OfSlot(other, slot); err != nil || of.Resource != fmt.Sprintf("pool#%d", slot) || of.Floor != 0 || of.Token != other.Token() {
		t.Error("a slot has one holder", of, err)
	}
	if _, err := fencesql.OfSlot(other, two.Slots()[0]); err == nil {
		t.Error("the fence of another holder's slot")
	}
	if err := fencesql.Raise(background(t), new(sql.DB), fencesql.PostgreSQL, fencesql.Of(other)); err == nil {
		t.Error("a mark without a transaction")
	}
	if err := errors.Join(two.Release(), other.Release()); err != nil {
		t.Error(err)
	}
	_, _, err = b.Semaphore("pool", 4).Acquire(background(t), 1)
	expectCode(t, err, "limit-mismatch")

	_, outer := mustLock(t, a, "nested", holdfast.Owner("importer"))
	_, inner := mustLock(t, a, "nested", holdfast.Owner("importer"), holdfast.Wait(0))
	if inner.Token() != outer.Token() {
		t.Error("re-entrance keeps the token", inner.Token(), outer.Token())
	}
	_, _, err = a.TryLock(background(t), "nested", holdfast.Owner("importer"), holdfast.Reentrant(false))
	expectCode(t, err, "not-reentrant")
	if err := outer.Release(); err != nil {
		t.Error(err)
	}
	if _, _, err := b.TryLock(background(t), "nested"); err == nil {
		t.Error("the inner guard holds the lock")
	}
	if err := errors.Join(inner.Ensure(), inner.Release()); err != nil {
		t.Error(err)
	}
}

func TestALockIsFreeAfterBothReleasesAlthoughOneGuardOfItsOwnerUpgradedIt(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{TTL: 3 * time.Second}), newClient(t, shared, holdfast.Config{})
	options := []holdfast.LockOption{holdfast.Owner("importer"), holdfast.InMode(holdfast.Upgradable)}
	mustLock(t, a, "beside-upgraded") // The session lives on, so its end frees no lock.
	_, first := mustLock(t, a, "upgraded", options...)
	_, second := mustLock(t, a, "upgraded", options...)
	if _, err := first.Upgrade(background(t), time.Second); err != nil {
		t.Fatal(err)
	}
	if err := second.Ensure(); err != nil || second.Token() != first.Token() {
		t.Error(second, err)
	}
	if err := errors.Join(second.Release(), first.Ensure(), first.Release()); err != nil {
		t.Error(err)
	}
	mustLock(t, b, "upgraded", holdfast.Wait(10*time.Second))
}

func TestMultiLock(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	ctx, both, err := a.LockMany(background(t), []string{"account/9", "account/7"}, holdfast.Wait(5*time.Second))
	if err != nil || len(both.Tokens()) != 2 || both.Names()[0] != "account/7" {
		t.Fatal(err)
	}
	if _, _, err := b.TryLock(background(t), "account/9"); err == nil {
		t.Error("not locked")
	}
	if _, err := b.ForceRelease(background(t), "account/7", 0, "test"); err != nil {
		t.Fatal(err)
	}
	if lost := awaitLoss(t, ctx, 2*time.Second); lost.Lock != "account/7" {
		t.Error(lost)
	}
	both.Release()
	awaitState(t, a, "account/9", func(s *holdfast.LockState) bool { return !s.Held })
}

func TestElection(t *testing.T) {
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	first, second := a.Election("primary"), b.Election("primary")
	changes := second.Observe(background(t))
	next := func() holdfast.LeaderChange {
		t.Helper()
		select {
		case change := <-changes:
			return change
		case <-time.After(5 * time.Second):
			t.Fatal("no change")
			panic("unreachable")
		}
	}
	if change := next(); change.Leader != nil {
		t.Fatal(change.Leader)
	}
	if _, err := second.Leader(background(t)); !errors.Is(err, holdfast.ErrNoLeader) {
		t.Fatal(err)
	}
	if _, err := first.Campaign(background(t), "10.0.0.7:5432"); err != nil {
		t.Fatal(err)
	}
	if change := next(); change.Leader == nil || change.Leader.Value != "10.0.0.7:5432" || change.Leader.Token != first.Guard().Token() {
		t.Fatal(change.Leader)
	}
	token := first.Guard().Token()
	if err := first.Proclaim(background(t), "10.0.0.8:5432"); err != nil || first.Guard().Token() != token {
		t.Fatal(err)
	}
	if change := next(); change.Leader == nil || change.Leader.Value != "10.0.0.8:5432" {
		t.Fatal(change.Leader)
	}
	elected := make(chan error, 1)
	go func() {
		_, err := second.Campaign(background(t), "b")
		elected <- err
	}()
	awaitState(t, a, "elections/primary", func(s *holdfast.LockState) bool { return s.Waiters == 1 })
	if err := first.Resign(); err != nil {
		t.Fatal(err)
	}
	if err := <-elected; err != nil {
		t.Fatal(err)
	}
	for change := next(); change.Leader == nil || change.Leader.Value != "b"; change = next() {
	}
	if leader, err := first.Leader(background(t)); err != nil || leader.Token <= token {
		t.Error(leader, err)
	}
	if err := second.Resign(); err != nil {
		t.Error(err)
	}
}

func TestLocker(t *testing.T) {
	client := newClient(t, shared, holdfast.Config{})
	var wait sync.WaitGroup
	one, two := client.Locker("locker"), client.Locker("locker")
	count := 0
	for i := 0; i < 10; i++ {
		locker := sync.Locker(one)
		if i%2 == 1 {
			locker = two
		}
		wait.Add(1)
		go func(locker sync.Locker) {
			defer wait.Done()
			locker.Lock()
			defer locker.Unlock()
			count++
		}(locker)
	}
	wait.Wait()
	if count != 10 {
		t.Error(count)
	}
}

func TestTreeAndWatch(t *testing.T) {
	client := newClient(t, shared, holdfast.Config{})
	ctx, cancel := context.WithCancel(background(t))
	defer cancel()
	watch, err := client.Watch(ctx, "/cfg/")
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.Put(ctx, "/cfg/shop/limit", []byte("1"), holdfast.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(ctx, "/cfg/shop/limit", []byte("2"), version); err != nil {
		t.Fatal(err)
	}
	_, err = client.Put(ctx, "/cfg/shop/limit", []byte("3"), version)
	expectCode(t, err, "version-mismatch")
	_, err = client.Create(ctx, "/cfg/shop/limit", nil)
	expectCode(t, err, "znode-exists")
	node, err := client.Get(ctx, "/cfg/shop/limit")
	if err != nil || string(node.Data) != "2" || node.Version != version+1 {
		t.Fatal(node, err)
	}
	expectCode(t, client.Delete(ctx, "/cfg/shop/limit", version), "version-mismatch")
	if err := client.Delete(ctx, "/cfg/shop/limit", node.Version); err != nil {
		t.Fatal(err)
	}
	_, err = client.Get(ctx, "/cfg/shop/limit")
	expectCode(t, err, "not-found")
	var kinds []string
	for change := range watch.Changes() {
		if change.Path == "/cfg/shop/limit" {
			kinds = append(kinds, change.Kind)
		}
		if len(kinds) == 3 {
			cancel()
			break
		}
	}
	if fmt.Sprint(kinds) != "[created changed deleted]" {
		t.Error(kinds)
	}
	for range watch.Changes() {
	}
	if !errors.Is(watch.Err(), context.Canceled) {
		t.Error(watch.Err())
	}
}

func TestRecipes(t *testing.T) {
	ctx := background(t)
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	latch := a.Latch("migrated")
	if _, err := latch.Create(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if left, err := latch.CountDown(ctx, "eu"); err != nil || left != 1 {
		t.Fatal(left, err)
	}
	_, err := latch.Wait(ctx, 200*time.Millisecond)
	expectCode(t, err, "not-yet")
	if left, err := b.Latch("migrated").CountDown(ctx, "us"); err != nil || left != 0 {
		t.Fatal(left, err)
	}
	if state, err := latch.Wait(ctx, time.Second); err != nil || !state.Open {
		t.Fatal(state, err)
	}
	if err := latch.Delete(ctx); err != nil {
		t.Fatal(err)
	}

	counter := a.Counter("hits")
	if value, err := counter.Add(ctx, 5); err != nil || value != 5 {
		t.Fatal(value, err)
	}
	if value, err := counter.Add(ctx, -2); err != nil || value != 3 {
		t.Fatal(value, err)
	}
	if value, err := b.Counter("hits").Get(ctx); err != nil || value != 3 {
		t.Fatal(value, err)
	}

	passed := make(chan error, 2)
	for _, client := range []*holdfast.Client{a, b} {
		go func(client *holdfast.Client) {
			_, err := client.Barrier("start", 2).Wait(ctx, 10*time.Second)
			passed <- err
		}(client)
	}
	if err := errors.Join(<-passed, <-passed); err != nil {
		t.Fatal(err)
	}
	_, err = a.Barrier("start", 2).Wait(ctx, 200*time.Millisecond)
	expectCode(t, err, "not-yet")

	for _, client := range []*holdfast.Client{a, b} {
		go func(client *holdfast.Client) {
			inside, err := client.DoubleBarrier("batch", 2).Enter(ctx, 10*time.Second)
			if err == nil {
				err = inside.Leave(ctx, 10*time.Second)
			}
			passed <- err
		}(client)
	}
	if err := errors.Join(<-passed, <-passed); err != nil {
		t.Fatal(err)
	}
}

func TestNamedSessionAndItsEnd(t *testing.T) {
	first := newClient(t, shared, holdfast.Config{Session: "named", TTL: 5 * time.Second, Labels: map[string]string{"host": "web1"}})
	ctx, guard := mustLock(t, first, "named-lock")
	if guard.Session() != "named" {
		t.Error(guard.Session())
	}
	_, _, err := newClient(t, shared, holdfast.Config{}).TryLock(background(t), "named-lock")
	var busy *holdfast.BusyError
	if !errors.As(err, &busy) || busy.Holder.Labels["host"] != "web1" {
		t.Error(err)
	}
	var wrong *holdfast.InvalidArgumentError
	if _, _, err := first.TryLock(background(t), "other", holdfast.TTL(9*time.Second)); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if err := guard.Release(); err != nil || !errors.Is(context.Cause(ctx), holdfast.ErrReleased) {
		t.Error(err)
	}
}

func TestArguments(t *testing.T) {
	client := newClient(t, shared, holdfast.Config{})
	var wrong *holdfast.InvalidArgumentError
	for _, options := range [][]holdfast.LockOption{
		{holdfast.InMode("odd")}, {holdfast.Wait(-1)}, {holdfast.Priority(10)}, {holdfast.Owner("a b")}, {holdfast.TTL(time.Millisecond)},
	} {
		if _, _, err := client.Lock(background(t), "a", options...); !errors.As(err, &wrong) {
			t.Error(err)
		}
	}
	if _, _, err := client.Lock(background(t), "a//b"); !errors.As(err, &wrong) {
		t.Error(err)
	}
	unreachable, err := holdfast.New(holdfast.Config{Addresses: []string{"127.0.0.1:1"}, RequestTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var unavailable *holdfast.UnavailableError
	if _, _, err := unreachable.Lock(background(t), "a"); !errors.As(err, &unavailable) || !holdfast.IsRetryable(err) {
		t.Error(err)
	}
}

func TestADurableHoldOutlastsItsClient(t *testing.T) {
	ctx := background(t)
	a, b := newClient(t, shared, holdfast.Config{}), newClient(t, shared, holdfast.Config{})
	token, err := a.HoldDurably(ctx, "freeze", "carol", "moving to v2", 0)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if again, err := b.HoldDurably(ctx, "freeze", "carol", "moving to v2", 0); err != nil || again != token {
		t.Fatal("the owner names the hold", again, token, err)
	}
	var busy *holdfast.BusyError
	if _, err := b.HoldDurably(ctx, "freeze", "dave", "a freeze", 100*time.Millisecond); !errors.As(err, &busy) {
		t.Fatal(err)
	}
	if err := b.ReleaseDurable(ctx, "freeze", "carol", token+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.TryLock(ctx, "freeze"); !errors.As(err, &busy) {
		t.Fatal("another token ended the hold", err)
	}
	for i := 0; i < 2; i++ {
		if err := b.ReleaseDurable(ctx, "freeze", "carol", token); err != nil {
			t.Fatal(err)
		}
	}
	_, guard, err := b.TryLock(ctx, "freeze")
	if err != nil || guard.Token() <= token {
		t.Fatal(guard, err)
	}
	guard.Release()
}
