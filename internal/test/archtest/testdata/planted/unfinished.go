// Package planted is not done.
package planted

// TODO(somebody): write it. // want "TODO"
func Later() string {
	return "TODO is a fine word in a text" // XXX // want "XXX"
}
