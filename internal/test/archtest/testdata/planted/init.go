// Package planted does something when it is imported.
package planted

var state int

func init() { state = 1 } // want "an init function"

type machine struct{}

func (machine) init() {}
