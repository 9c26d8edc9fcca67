// Package planted sleeps, and hopes.
package planted

import "time"

func wait() {
	time.Sleep(time.Second) // want "time.Sleep"
	_ = time.After(time.Second)
}
