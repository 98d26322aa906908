package store

import "path/filepath"

// remote are the file systems, by the number that statfs gives them on Linux,
// whose files another host may write to, or another program stands behind:
// SQLite's locks and the shared memory of its WAL cannot be relied on there.
var remote = map[uint32]string{
	0x00006969: "NFS",
	0x0000517b: "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x65735546: "FUSE",
	0x01021997: "9P",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x5346414f: "AFS",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
}

// Remote names the network file system that a SQLite file is on; "" where it is
// on none, or where nobody can tell.
func (s *Store) Remote() string {
	if s.target.dialect != SQLite {
		return ""
	}
	return remote[s.statfs(filepath.Dir(s.target.path))]
}
