// Package wsopen opens WebSockets, at both ends, for packages transport/ws and
// approval/channel.
package wsopen
