module github.com/holdfast/holdfast/crates/client-go/fencesql/storetest

go 1.21

require (
	github.com/holdfast/holdfast/crates/client-go v0.0.0
	github.com/lib/pq v1.10.9
)

replace github.com/holdfast/holdfast/crates/client-go => ../../
