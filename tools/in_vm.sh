#!/bin/bash
# Runs a shell's COMMAND as root in a virtual machine that has the kernel of a Debian package, cgroup
# v2 only, two CPUs, and the files of this host; what it changes there is lost. It needs root,
# qemu-system-x86_64, cpio and a static busybox. Emulated by default, and so ten times slower than
# this host: ACCEL=kvm for a host that can have virtual machines. With --systemd, this host's systemd
# is its init, with no more of its services than the journal and D-Bus, and runs COMMAND as a service.
# Usage: in_vm.sh [--systemd] LINUX_IMAGE.deb COMMAND
set -euo pipefail
init=direct
if [ "$1" = --systemd ]; then init=systemd; shift; fi
package=$1
command=$2
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

dpkg-deb -x "$package" "$build/kernel"
version=$(ls "$build/kernel/lib/modules")
modules=lib/modules/$version/kernel
root=$build/root
mkdir -p "$root"/{bin,proc,lower,layer,host} "$build/shared/units"
cp "$(command -v busybox)" "$root/bin/busybox"
for folder in drivers/virtio net/9p fs/9p fs/netfs fs/fscache fs/overlayfs; do
  mkdir -p "$root/$modules/$folder"
  cp "$build/kernel/$modules/$folder"/*.ko "$root/$modules/$folder"
done
busybox depmod -b "$root" "$version"

cat > "$root/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
for module in virtio_pci 9pnet_virtio 9p overlay; do modprobe \$module; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /lower
mount -t tmpfs layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work overlay /host
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount -t devtmpfs dev /host/dev
mkdir -p /host/dev/shm /host/dev/pts
mount -t tmpfs shm /host/dev/shm
mount -t devpts pts /host/dev/pts
mount -t tmpfs run /host/run
mount -t cgroup2 cgroup2 /host/sys/fs/cgroup
ln -s /proc/self/fd /host/dev/fd
mount -t 9p -o trans=virtio,version=9p2000.L shared /host/mnt
chroot /host ip link set lo up
if [ $init = systemd ]; then
  # The unit is an argument, as systemd ignores the kernel's where this host is a container.
  cd /host/lib/systemd/system
  find sysinit.target.wants ! -type d ! -name "*journald*" -exec rm {} +
  cp /host/mnt/units/* .
  exec switch_root /host /lib/systemd/systemd --unit=in_vm.target
fi
chroot /host /bin/sh /mnt/command
echo \$? > /host/mnt/status
poweroff -f
END
chmod +x "$root/init"
printf 'export PATH=%q HOME=/root LANG=C.UTF-8\ncd %q\n%s\n' "$PATH" "$PWD" "$command" \
  > "$build/shared/command"
cat > "$build/shared/units/in_vm.target" <<END
[Unit]
Requires=dbus.socket in_vm.service
END
cat > "$build/shared/units/in_vm.service" <<END
[Unit]
After=basic.target
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate
[Service]
Type=oneshot
StandardOutput=tty
TTYPath=/dev/console
ExecStart=/bin/sh -c '/bin/sh /mnt/command; echo \$? > /mnt/status'
END
(cd "$root" && find . | cpio --quiet -o -H newc) | gzip -1 > "$build/initramfs"

qemu-system-x86_64 -accel "${ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 6G -no-reboot \
  -nographic -nodefaults -serial stdio -kernel "$build/kernel/boot/vmlinuz-$version" \
  -initrd "$build/initramfs" -append "console=ttyS0 quiet panic=-1" \
  -virtfs local,path=/,mount_tag=host,security_model=none,multidevs=remap,readonly=on \
  -virtfs "local,path=$build/shared,mount_tag=shared,security_model=none" < /dev/null
exit "$(cat "$build/shared/status")"
