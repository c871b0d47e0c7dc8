using System;
using System.Net.Sockets;

namespace Tau.Engine
{
    /// <summary>
    /// The smallest cleartext HTTP/2 client (RFC 9113, prior knowledge) that makes gRPC's unary calls, one at a time:
    /// flow control in both directions, large messages in pieces, pings, settings that change, an announced end.
    /// </summary>
    internal sealed class Http2UnaryClient : IDisposable
    {
        private const int LastStream = int.MaxValue - 2;
        private const int TopUp = 1 << 30;

        private readonly FrameSocket _socket;
        private readonly byte[] _headers;
        private readonly UnaryReply _reply = new UnaryReply();
        private byte[] _outgoing = new byte[4096];
        private int _stream = -1;
        private long _window = Http2Frames.DefaultWindow;
        private long _streamWindow = Http2Frames.DefaultWindow;
        private int _firstWindow = Http2Frames.DefaultWindow;
        private int _frameLimit = Http2Frames.DefaultFrame;
        private int _unacknowledged;
        private bool _closing;

        /// <summary>
        /// Begin to speak on a connected <paramref name="socket"/>, which this object owns from now on.
        /// </summary>
        /// <param name="authority">Host and port as the server is called.</param>
        /// <param name="path">The one method, as in <c>/package.Service/Method</c>.</param>
        /// <param name="interrupted">Asked four times a second while a call waits; true ends the wait.</param>
        /// <exception cref="CallException">The connection is lost at once.</exception>
        public Http2UnaryClient(Socket socket, string authority, string path, Func<bool> interrupted)
        {
            _socket = new FrameSocket(socket, interrupted);
            _headers = Http2Frames.RequestHeaders(path, authority);
            _socket.Send(Http2Frames.Hello());
        }

        /// <summary>Whether another call can be made; if not, a new connection is needed.</summary>
        public bool Usable => !_closing && _stream < LastStream;

        /// <inheritdoc/>
        public void Dispose()
        {
            _socket.Dispose();
        }

        /// <summary>From now on wait this long at most, and be interrupted by nothing else.</summary>
        public void Hurry(TimeSpan patience)
        {
            _socket.Hurry(patience);
        }

        /// <summary>Send a message and wait for the reply.</summary>
        /// <returns>The reply's bytes, valid until the next call.</returns>
        /// <exception cref="CallException">There is no reply, or none that can be read.</exception>
        /// <exception cref="OperationCanceledException">The wait was interrupted.</exception>
        public ArraySegment<byte> Call(ArraySegment<byte> message)
        {
            _stream += 2;
            _streamWindow = _firstWindow;
            _reply.Begin();
            var head = WriteRequestHead();
            var body = UnaryReply.MessageHead + message.Count;
            if (body <= Math.Min(Math.Min(_window, _streamWindow), _frameLimit))
            {
                SendWhole(message, head, body);
            }
            else
            {
                _socket.Send(_outgoing, head);
                SendInPieces(message);
            }

            while (!_reply.Done)
            {
                OnFrame(_socket.Read());
            }

            return _reply.Message();
        }

        /// <summary>Give up a call that was interrupted.</summary>
        /// <exception cref="CallException">The connection is lost.</exception>
        public void Cancel()
        {
            if (!_reply.Done)
            {
                _reply.Abandon();
                _socket.SendNumber(Http2Frames.ResetStream, _stream, Http2Frames.Cancel);
            }
        }

        /// <summary>What stands before a gRPC message: not compressed, and its length.</summary>
        private static void WriteMessageHead(byte[] target, int at, int length)
        {
            target[at] = 0;
            Http2Frames.WriteUInt32(target, at + 1, (uint)length);
        }

        /// <summary>Put the frame of the request's headers into the outgoing buffer; its size.</summary>
        private int WriteRequestHead()
        {
            var size = _headers.Length;
            Http2Frames.WriteHead(_outgoing, 0, size, Http2Frames.Headers, Http2Frames.EndHeaders, _stream);
            Buffer.BlockCopy(_headers, 0, _outgoing, Http2Frames.HeadSize, size);
            return Http2Frames.HeadSize + size;
        }

        /// <summary>The usual case, a message that fits: all of the request in one packet.</summary>
        private void SendWhole(ArraySegment<byte> message, int head, int body)
        {
            var size = head + Http2Frames.HeadSize + body;
            if (_outgoing.Length < size)
            {
                Array.Resize(ref _outgoing, 2 * size);
            }

            Http2Frames.WriteHead(_outgoing, head, body, Http2Frames.Data, Http2Frames.EndStream, _stream);
            WriteMessageHead(_outgoing, head + Http2Frames.HeadSize, message.Count);
            Buffer.BlockCopy(message.Array, message.Offset, _outgoing, size - message.Count, message.Count);
            _window -= body;
            _socket.Send(_outgoing, size);
        }

        /// <summary>A large message, as the server's windows let it through (RFC 9113, 5.2).</summary>
        private void SendInPieces(ArraySegment<byte> message)
        {
            var body = new byte[UnaryReply.MessageHead + message.Count];
            WriteMessageHead(body, 0, message.Count);
            Buffer.BlockCopy(message.Array, message.Offset, body, UnaryReply.MessageHead, message.Count);
            var piece = new byte[Http2Frames.HeadSize + Math.Min(_frameLimit, body.Length)];
            for (var at = 0; at < body.Length && !_reply.Done;)
            {
                var room = Math.Min(Math.Min(_window, _streamWindow), piece.Length - Http2Frames.HeadSize);
                if (room <= 0)
                {
                    OnFrame(_socket.Read());
                    continue;
                }

                var size = (int)Math.Min(room, body.Length - at);
                var flags = at + size == body.Length ? Http2Frames.EndStream : 0;
                Http2Frames.WriteHead(piece, 0, size, Http2Frames.Data, flags, _stream);
                Buffer.BlockCopy(body, at, piece, Http2Frames.HeadSize, size);
                at += size;
                _window -= size;
                _streamWindow -= size;
                _socket.Send(piece, Http2Frames.HeadSize + size);
            }
        }

        private void OnFrame(Http2Frame frame)
        {
            switch (frame.Kind)
            {
                case Http2Frames.Data:
                    OnData(frame);
                    break;
                case Http2Frames.Headers:
                case Http2Frames.Continuation:
                    if (frame.Stream == _stream)
                    {
                        _reply.OnHeaders(frame);
                    }

                    break;
                case Http2Frames.PushPromise:
                    throw new CallException(CallFailure.Unreadable, "it pushes what nobody asked for");
                default:
                    frame.CheckSize();
                    OnControl(frame);
                    break;
            }
        }

        private void OnData(Http2Frame frame)
        {
            _unacknowledged += frame.Payload.Count;
            if (_unacknowledged >= TopUp)
            {
                _socket.SendNumber(Http2Frames.WindowUpdate, 0, _unacknowledged);
                _unacknowledged = 0;
            }

            if (frame.Stream == _stream)
            {
                _reply.OnData(frame);
            }
        }

        private void OnControl(Http2Frame frame)
        {
            if (frame.Kind == Http2Frames.WindowUpdate)
            {
                _window += frame.Stream == 0 ? frame.Number(0) : 0;
                _streamWindow += frame.Stream == _stream ? frame.Number(0) : 0;
            }
            else if (frame.Kind == Http2Frames.Settings && !frame.Has(Http2Frames.Acknowledge))
            {
                OnSettings(frame);
            }
            else if (frame.Kind == Http2Frames.Ping && !frame.Has(Http2Frames.Acknowledge))
            {
                _socket.Acknowledge(Http2Frames.Ping, frame.Payload);
            }
            else if (frame.Kind == Http2Frames.ResetStream && frame.Stream == _stream)
            {
                throw new CallException(CallFailure.Lost, "the server cancelled the call");
            }
            else if (frame.Kind == Http2Frames.GoAway)
            {
                OnGoAway(frame);
            }
        }

        private void OnSettings(Http2Frame frame)
        {
            for (var at = 0; at < frame.Payload.Count; at += 6)
            {
                var name = frame.ShortNumber(at);
                var value = frame.Number(at + 2);
                if (name == Http2Frames.InitialWindowSize)
                {
                    _streamWindow += value - _firstWindow; // also of the call on its way; it may become negative
                    _firstWindow = value;
                }
                else if (name == Http2Frames.MaxFrameSize)
                {
                    _frameLimit = Math.Min(Math.Max(value, Http2Frames.DefaultFrame), Http2Frames.LargestFrame);
                }
            }

            _socket.Acknowledge(Http2Frames.Settings, default);
        }

        /// <summary>The server takes no new calls; the one on its way may still be answered.</summary>
        private void OnGoAway(Http2Frame frame)
        {
            _closing = true;
            if (frame.Number(4) != 0 || frame.Number(0) < _stream)
            {
                throw new CallException(CallFailure.Lost, "the server ends the connection");
            }
        }
    }
}
