package holdfastprom_test

import (
	"context"
	"errors"
	"testing"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
	"github.com/holdfast/holdfast/crates/client-go/holdfastprom"
	"github.com/holdfast/holdfast/crates/client-go/internal/testcluster"
	"github.com/prometheus/client_golang/prometheus"
)

func TestARegistryCountsWhatAClientDoes(t *testing.T) {
	cluster := testcluster.Start(t, 1)
	registry := prometheus.NewRegistry()
	client, err := holdfast.New(holdfast.Config{Addresses: cluster.Addresses, Metrics: holdfastprom.New(registry)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	held, guard, err := client.Lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Lock(ctx, "a", holdfast.Wait(0)); !errors.As(err, new(*holdfast.BusyError)) {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(ctx)
	leave()
	if _, _, err := client.Lock(left, "a"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := client.ForceRelease(ctx, "a", 0, "maintenance"); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	_ = guard.Release()

	for name, want := range map[string]float64{
		"holdfast_client_acquire_seconds":                  1,
		"holdfast_client_acquire_failures_total busy":      1,
		"holdfast_client_acquire_failures_total cancelled": 1,
		"holdfast_client_losses_total force-released":      1,
	} {
		if got := counts(t, registry)[name]; got != want {
			t.Errorf("%s is %v instead of %v", name, got, want)
		}
	}
	if counts(t, registry)["holdfast_client_renewals_total true"] < 1 {
		t.Error("no renewal was counted")
	}
}

// counts returns each metric with the values of its labels.
func counts(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			found[name] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return found
}
