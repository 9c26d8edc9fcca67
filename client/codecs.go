package client

import (
	"reflect"
	"sync"

	"github.com/dovetail-go/dovetail/internal/codec"
)

// codecs are those of the types that a session has met: as many as the program has. The
// zero value is ready.
type codecs struct{ known sync.Map } // of reflect.Type to *codec.Codec

// of returns the codec of a type.
func (c *codecs) of(t reflect.Type) *codec.Codec {
	if known, ok := c.known.Load(t); ok {
		return known.(*codec.Codec)
	}
	made := codec.For(t)
	c.known.Store(t, made)
	return made
}
