// Package bufpool reuses the memory of messages: a [Pool] has buffers, and a [Recycler]
// and a [Holder] learn when a message may be overwritten.
package bufpool
