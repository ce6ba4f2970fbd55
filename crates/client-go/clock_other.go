//go:build !linux

package holdfast

func now() moment { return elapsed() }
