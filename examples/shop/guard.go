package main

import (
	"context"
	"errors"
	"slices"

	"github.com/dovetail-go/dovetail/server"
)

// staff is the scope of what is not for customers, and the principal of a caller who
// is none.
const staff = "staff"

// staffOnly keeps what has the scope of the staff from everyone else, and out of their
// lists.
func staffOnly(everyoneIsStaff bool) server.Guard {
	return server.Guard{Name: "staff", Hides: true, Allow: func(_ context.Context, r *server.Request) error {
		scopes, _ := r.Metadata(server.MetadataScopes).([]string)
		if everyoneIsStaff || !slices.Contains(scopes, staff) || r.Caller().Principal == staff {
			return nil
		}
		return errors.New("for the staff only")
	}}
}
