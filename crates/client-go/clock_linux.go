package holdfast

import (
	"syscall"
	"unsafe"
)

const clockBoottime = 7

// now reads CLOCK_BOOTTIME, which advances while the machine is suspended.
func now() moment {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return elapsed()
	}
	return moment(ts.Nano())
}
