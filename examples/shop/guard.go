package main

import (
	"context"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// staff is the scope of what is not for customers, and the principal of a caller who
// is none.
const staff = "staff"

// staffOnly keeps what has the scope of the staff from everyone else, and out of their
// lists.
func staffOnly(everyoneIsStaff bool) mcp.Guard {
	return mcp.Guard{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, target *mcp.Target) bool {
		return everyoneIsStaff || !slices.Contains(target.Scopes, staff) || caller.Principal == staff
	}}
}
