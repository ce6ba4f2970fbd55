module github.com/holdfast/holdfast/crates/client-go/fencesql/storetest

go 1.21

require (
	github.com/go-sql-driver/mysql v1.8.1
	github.com/holdfast/holdfast/crates/client-go v0.0.0
	github.com/lib/pq v1.10.9
)

require filippo.io/edwards25519 v1.1.0 // indirect

replace github.com/holdfast/holdfast/crates/client-go => ../../
