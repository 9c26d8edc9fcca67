package era_test

import (
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/mcp"
)

// TestDifferences runs a test for each difference between the versions of the protocol, in each
// version. Time is virtual.
func TestDifferences(t *testing.T) {
	for _, difference := range []struct {
		name string
		test func(*testing.T, mcp.Version)
	}{
		{"opening", testOpening},
		{"unknown version", testUnknownVersion},
		{"identity of the caller", testCaller},
		{"extensions of the client", testExtensions},
		{"call before opening", testNotOpened},
		{"opening twice", testOpenedTwice},
		{"batch", testBatch},
		{"ping", testPing},
		{"methods of one era", testMethodsOfOneEra},
		{"capabilities of the server", testServerCapabilities},
		{"result envelope", testEnvelope},
		{"cache hints", testCacheHints},
		{"cache hint of the server", testHintOfServer},
		{"error codes", testErrorCodes},
		{"listed members", testListedMembers},
		{"structured content", testStructuredContent},
		{"content kinds", testContentKinds},
		{"questions", testQuestions},
		{"form of questions", testFormOfQuestions},
		{"several rounds", testRounds},
		{"two questions at once", testRoundOfTwo},
		{"round without answers", testUnansweredRound},
		{"refused questions", testRefusals},
		{"missing capability", testMissingCapability},
		{"who may not ask", testMayAsk},
		{"endless questions", testEndlessQuestions},
		{"changed lists", testListChanges},
		{"updated resources", testUpdates},
		{"log level", testLogLevel},
		{"log message", testLogMessage},
		{"progress", testProgress},
		{"cancelling", testCancel},
		{"cancelling a question", testCancelWhileAsking},
		{"end of the connection", testDisconnect},
	} {
		t.Run(difference.name, func(t *testing.T) {
			eachVersion(t, difference.test)
		})
	}
}

func eachVersion(t *testing.T, test func(*testing.T, mcp.Version)) {
	t.Helper()
	for _, version := range mcp.Versions() {
		t.Run(string(version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, version) })
		})
	}
}
