using System;
using System.Net.Sockets;

namespace Tau.Engine
{
    /// <summary>Bytes that are appended at one end and dropped at the other; the memory is used again.</summary>
    internal sealed class ByteQueue
    {
        private const int First = 1 << 16;
        private byte[] _buffer = new byte[First];
        private int _start;

        /// <summary>How many bytes are inside.</summary>
        public int Count { get; private set; }

        /// <summary>What is inside, valid until something is appended.</summary>
        public ArraySegment<byte> Bytes => new ArraySegment<byte>(_buffer, _start, Count);

        /// <summary>Drop everything.</summary>
        public void Clear()
        {
            _start = 0;
            Count = 0;
        }

        /// <summary>Drop the first <paramref name="count"/> bytes.</summary>
        public void Drop(int count)
        {
            Count -= count;
            _start = Count == 0 ? 0 : _start + count;
        }

        /// <summary>Append a copy.</summary>
        public void Append(ArraySegment<byte> bytes)
        {
            MakeRoom(bytes.Count);
            Buffer.BlockCopy(bytes.Array, bytes.Offset, _buffer, _start + Count, bytes.Count);
            Count += bytes.Count;
        }

        /// <summary>
        /// Append what a socket has, one read; room is made for <paramref name="wanted"/> bytes in all.
        /// </summary>
        /// <returns>How many came; 0: the other side has closed the connection.</returns>
        /// <exception cref="SocketException">The connection is lost.</exception>
        public int ReceiveFrom(Socket socket, int wanted)
        {
            MakeRoom(Math.Max(wanted - Count, 1));
            var end = _start + Count;
            var got = socket.Receive(_buffer, end, _buffer.Length - end, SocketFlags.None);
            Count += got;
            return got;
        }

        private void MakeRoom(int more)
        {
            if (_start + Count + more <= _buffer.Length)
            {
                return;
            }

            var target = Count + more <= _buffer.Length / 2 ? _buffer : new byte[2 * (Count + more)];
            Buffer.BlockCopy(_buffer, _start, target, 0, Count);
            _buffer = target;
            _start = 0;
        }
    }
}
