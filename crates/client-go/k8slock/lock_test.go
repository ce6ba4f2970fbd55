package k8slock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
	"github.com/holdfast/holdfast/crates/client-go/internal/testcluster"
	"github.com/holdfast/holdfast/crates/client-go/k8slock"
	"k8s.io/client-go/tools/leaderelection"
)

// A candidate is an operator with a LeaderElector, and a separate client.
type candidate struct {
	client  *holdfast.Client
	lock    *k8slock.Lock
	started chan int64 // the token of each leadership
	stopped chan struct{}
	crash   context.CancelFunc
	over    chan struct{}
}

func run(t *testing.T, cluster *testcluster.Cluster, identity string, releases bool) *candidate {
	t.Helper()
	client, err := holdfast.New(holdfast.Config{Addresses: cluster.Addresses, Labels: map[string]string{"pod": identity}})
	if err != nil {
		t.Fatal(err)
	}
	c := &candidate{
		client: client, lock: k8slock.New(client, "default", "operator", identity),
		started: make(chan int64, 10), stopped: make(chan struct{}, 10), over: make(chan struct{}),
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lock, LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 500 * time.Millisecond,
		ReleaseOnCancel: releases, Name: "operator",
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { c.started <- c.lock.Token() },
			OnStoppedLeading: func() { c.stopped <- struct{}{} },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, crash := context.WithCancel(context.Background())
	c.crash = crash
	go func() {
		defer close(c.over)
		for ctx.Err() == nil {
			elector.Run(ctx)
		}
	}()
	t.Cleanup(func() {
		crash()
		<-c.over
		client.Close()
	})
	return c
}

func (c *candidate) leads(t *testing.T, within time.Duration) int64 {
	t.Helper()
	select {
	case token := <-c.started:
		return token
	case <-time.After(within):
		t.Fatalf("%s does not lead within %v", c.lock.Identity(), within)
		return 0
	}
}

func (c *candidate) stops(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case <-c.stopped:
	case <-time.After(within):
		t.Fatalf("%s leads for more than %v", c.lock.Identity(), within)
	}
}

func TestLeaderElector(t *testing.T) {
	cluster := testcluster.Start(t, 3)
	a := run(t, cluster, "a", true)
	first := a.leads(t, 10*time.Second)
	b := run(t, cluster, "b", false)

	record, raw, err := b.lock.Get(context.Background())
	if err != nil || record.HolderIdentity != "a" || record.LeaseDurationSeconds != 5 {
		t.Fatal(record, err)
	}
	var document struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	if got := document.Metadata.Annotations[k8slock.TokenAnnotation]; got != strconv.FormatInt(first, 10) {
		t.Error(got, first)
	}

	// The leadership survives the death of a node, for longer than the lease.
	leader := cluster.Leader(t)
	cluster.Command(t, fmt.Sprint("kill ", leader))
	select {
	case <-a.stopped:
		t.Fatal("the death of a node ended the leadership")
	case token := <-b.started:
		t.Fatal("two leaders", first, token)
	case <-time.After(8 * time.Second):
	}
	cluster.Command(t, fmt.Sprint("restart ", leader))
	if token := a.lock.Token(); token != first {
		t.Error("a renewal keeps the token", token, first)
	}

	// ReleaseOnCancel: the next candidate leads at once.
	a.crash()
	a.stops(t, 5*time.Second)
	second := b.leads(t, 3*time.Second)
	if second <= first || a.lock.Token() != 0 {
		t.Error(first, second, a.lock.Token())
	}

	// An operator ends the hold: the former leader stops, and gets no new token for its old term.
	if _, err := b.client.ForceRelease(context.Background(), "k8s/default/operator", 0, "test"); err != nil {
		t.Fatal(err)
	}
	b.stops(t, 5*time.Second)
	if third := b.leads(t, 15*time.Second); third <= second {
		t.Error(second, third)
	}
}
