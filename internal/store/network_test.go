package store_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestAFileOnANetworkIsKnown(t *testing.T) {
	for number, want := range map[uint32]string{
		0x6969: "NFS", 0xff534d42: "CIFS", 0x65735546: "FUSE",
		0xef53: "", 0x01021994: "", 0x58465342: "", 0: "", // ext4, tmpfs, XFS, not known
	} {
		db := storetest.SQLite(t)
		asked := ""
		s := db.Open(t, store.Options{Statfs: func(folder string) uint32 {
			asked = folder
			return number
		}})
		require.Equal(t, want, s.Remote(), "%x", number)
		require.Equal(t, filepath.Dir(strings.TrimPrefix(db.DSN, "sqlite:")), asked)
	}
	require.Empty(t, storetest.SQLite(t).Open(t, store.Options{}).Remote(), "the system was asked, of a folder for tests")
}

func TestAServerHasNoFile(t *testing.T) {
	s := open(t, storetest.Postgres(t), store.Options{Statfs: func(string) uint32 { return 0x6969 }})
	require.Empty(t, s.Remote())
}
