package procgroup

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Owns reports whether all sockets that accept TCP connections to an address belong to the processes or their
// descendants. It reads /proc: see proc_net_tcp(5).
func Owns(pids []int, address netip.AddrPort) bool {
	listening := listeners(address)
	if len(listening) == 0 {
		return false
	}
	var all []int
	for _, pid := range pids {
		all = append(all, pid)
		for _, p := range descendants(pid) {
			all = append(all, p.pid)
		}
	}
	for _, pid := range all {
		for _, socket := range sockets(pid) {
			delete(listening, socket)
		}
	}
	return len(listening) == 0
}

// listeners returns the sockets that accept connections to an address, as the kernel names them.
func listeners(address netip.AddrPort) map[string]bool {
	const local, state, inode, listen = 1, 3, 9, "0A"
	found := make(map[string]bool)
	for _, name := range []string{"tcp", "tcp6"} {
		file, err := os.Open("/proc/net/" + name)
		if err != nil {
			continue // there is no IPv6
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) <= inode || fields[state] != listen {
				continue
			}
			if at, ok := parseAddress(fields[local]); ok && accepts(at, address) {
				found["socket:["+fields[inode]+"]"] = true
			}
		}
		_ = file.Close()
	}
	return found
}

// accepts reports whether a socket that listens at an address accepts connections to another one. A socket of IPv6 may
// accept IPv4 too.
func accepts(listens, to netip.AddrPort) bool {
	at := listens.Addr()
	return listens.Port() == to.Port() && (at == to.Addr() || at.IsUnspecified() && (at.Is6() || to.Addr().Is4()))
}

// parseAddress reads an address of /proc/net/tcp: words in the byte order of the machine, and the port.
func parseAddress(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), ok
}

// sockets returns the sockets of a process.
func sockets(pid int) (found []string) {
	folder := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // it has ended
	}
	for _, entry := range entries {
		if target, err := os.Readlink(folder + entry.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			found = append(found, target)
		}
	}
	return found
}
