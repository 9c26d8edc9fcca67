package transport

import "errors"

// ErrNotReached is, under [errors.Is], a failure of the network or of something
// on the way that answered in the server's place: no name, no connection, no
// permission, an overloaded gateway. It says nothing of what the server can do.
var ErrNotReached = errors.New("the server was not reached")
