module github.com/holdfast/holdfast/crates/client-go

go 1.21
