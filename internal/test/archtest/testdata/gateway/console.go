//go:build console

package main

import (
	"log"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/server"
)

func addConsole(mux *http.ServeMux, s *server.Server, b *bridge.Bridge, lock *pin.Lock) {
	c, err := console.New(s, b, &console.Options{Recorder: console.NewRecorder(nil), Lock: lock})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/console/", c)
}
