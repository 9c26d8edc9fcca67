//go:build !linux

package cputest

import "time"

func threadTime() time.Duration { return 0 }
