using System;
using System.Diagnostics;
using System.Net.Sockets;

namespace Tau.Engine
{
    /// <summary>A connected socket that sends bytes and takes in whole HTTP/2 frames.</summary>
    internal sealed class FrameSocket : IDisposable
    {
        private const int SliceMicroseconds = 250_000;

        private readonly Socket _socket;
        private readonly Func<bool> _interrupted;
        private readonly ByteQueue _received = new ByteQueue();
        private int _read;
        private bool _greeted;
        private Stopwatch _clock;
        private TimeSpan _patience;

        /// <summary>Take over <paramref name="socket"/>.</summary>
        /// <param name="socket">A connection.</param>
        /// <param name="interrupted">Asked four times a second during a wait; true ends it.</param>
        public FrameSocket(Socket socket, Func<bool> interrupted)
        {
            _socket = socket;
            _socket.NoDelay = true;
            _interrupted = interrupted;
        }

        /// <inheritdoc/>
        public void Dispose()
        {
            _socket.Dispose();
        }

        /// <summary>From now on wait this long at most, and be interrupted by nothing else.</summary>
        public void Hurry(TimeSpan patience)
        {
            _clock = Stopwatch.StartNew();
            _patience = patience;
        }

        /// <summary>Send all of these bytes.</summary>
        /// <exception cref="CallException">The connection is lost.</exception>
        public void Send(byte[] bytes)
        {
            Send(bytes, bytes.Length);
        }

        /// <summary>Send the first <paramref name="count"/> bytes.</summary>
        /// <exception cref="CallException">The connection is lost.</exception>
        public void Send(byte[] bytes, int count)
        {
            try
            {
                for (var at = 0; at < count;)
                {
                    at += _socket.Send(bytes, at, count - at, SocketFlags.None);
                }
            }
            catch (SocketException error)
            {
                throw new CallException(CallFailure.Lost, error.Message, -1, error);
            }
        }

        /// <summary>Send a frame that carries one number.</summary>
        /// <exception cref="CallException">The connection is lost.</exception>
        public void SendNumber(int kind, int stream, int number)
        {
            var frame = Http2Frames.WithNumber(kind, stream, number);
            Send(frame);
        }

        /// <summary>Acknowledge a frame about the connection with a frame of the same kind.</summary>
        /// <exception cref="CallException">The connection is lost.</exception>
        public void Acknowledge(int kind, ArraySegment<byte> payload)
        {
            var frame = new byte[Http2Frames.HeadSize + payload.Count];
            Http2Frames.WriteHead(frame, 0, payload.Count, kind, Http2Frames.Acknowledge, 0);
            payload.AsSpan().CopyTo(frame.AsSpan(Http2Frames.HeadSize));
            Send(frame);
        }

        /// <summary>Wait for the next frame, whose payload is valid until the next call.</summary>
        /// <exception cref="CallException">The connection is lost, or the other side does not speak HTTP/2.</exception>
        /// <exception cref="OperationCanceledException">The wait was interrupted; nothing is lost.</exception>
        public Http2Frame Read()
        {
            _received.Drop(_read);
            _read = 0;
            Fill(Http2Frames.HeadSize);
            var head = _received.Bytes;
            var word = Http2Frames.ReadUInt32(head.Array, head.Offset);
            var length = (int)(word >> 8);
            var kind = (int)(word & 0xFF);
            var flags = head.Array[head.Offset + 4];
            var stream = (int)(Http2Frames.ReadUInt32(head.Array, head.Offset + 5) & Http2Frames.LargestWindow);
            if (!_greeted && (kind != Http2Frames.Settings || length > Http2Frames.DefaultFrame || stream != 0))
            {
                throw new CallException(CallFailure.Unreadable, "its first words are not HTTP/2");
            }

            _greeted = true;
            Fill(Http2Frames.HeadSize + length);
            _read = Http2Frames.HeadSize + length;
            return new Http2Frame(kind, flags, stream, _received.Bytes.Slice(Http2Frames.HeadSize, length));
        }

        private void Fill(int count)
        {
            while (_received.Count < count)
            {
                Wait();
                int got;
                try
                {
                    got = _received.ReceiveFrom(_socket, count);
                }
                catch (SocketException error)
                {
                    throw new CallException(CallFailure.Lost, error.Message, -1, error);
                }

                if (got == 0)
                {
                    throw new CallException(CallFailure.Lost, "connection closed");
                }
            }
        }

        /// <summary>
        /// Wait for bytes in slices, since nothing else wakes a blocked socket when the user stops us.
        /// </summary>
        private void Wait()
        {
            while (!_socket.Poll(SliceMicroseconds, SelectMode.SelectRead))
            {
                if (_clock != null && _clock.Elapsed > _patience)
                {
                    throw new CallException(CallFailure.Lost, "timed out");
                }

                if (_clock == null && _interrupted())
                {
                    throw new OperationCanceledException();
                }
            }
        }
    }
}
