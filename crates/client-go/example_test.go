package holdfast_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
)

func Example() {
	var db *sql.DB
	hf, err := holdfast.New(holdfast.Config{Addresses: []string{"10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400"}})
	if err != nil {
		log.Fatal(err)
	}
	defer hf.Close()
	ctx, guard, err := hf.Lock(context.Background(), "orders", holdfast.Wait(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer guard.Release()
	_, err = db.ExecContext(ctx, "UPDATE orders SET state = 'sent', fence = $1 WHERE id = 1 AND fence <= $1", guard.Token())
	if err != nil {
		fmt.Println(err, context.Cause(ctx))
	}
}

func ExampleElection() {
	hf, err := holdfast.New(holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	election := hf.Election("primary")
	ctx, err := election.Campaign(context.Background(), "10.0.0.7:5432")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leading with token", election.Guard().Token())
	<-ctx.Done()
	fmt.Println(context.Cause(ctx))
	election.Resign()
}
