// What ML-Agents' communicator uses of gRPC for C#, over .NET's own HTTP/2: one unary call after the other.
using System;
using System.Buffers.Binary;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Reflection;
using System.Threading;
using System.Threading.Tasks;

[assembly: AssemblyVersion("1.0.0.0")]

namespace Grpc.Core
{
    public enum StatusCode { OK = 0, Unknown = 2, ResourceExhausted = 8, Internal = 13, Unavailable = 14 }

    public enum MethodType { Unary }

    public struct Status
    {
        public Status(StatusCode statusCode, string detail)
        {
            StatusCode = statusCode;
            Detail = detail;
        }

        public StatusCode StatusCode { get; }

        public string Detail { get; }
    }

    public class RpcException : Exception
    {
        public RpcException(Status status) : base(status.StatusCode + ": " + status.Detail) => Status = status;

        public Status Status { get; }
    }

    public class Metadata { }

    public class ChannelCredentials
    {
        public static ChannelCredentials Insecure => null;
    }

    public class CallCredentials { }

    public class ContextPropagationToken { }

    public class WriteOptions { }

    public struct CallOptions
    {
        public CallOptions(
            Metadata headers = null,
            DateTime? deadline = null,
            CancellationToken cancellationToken = default,
            WriteOptions writeOptions = null,
            ContextPropagationToken propagationToken = null,
            CallCredentials credentials = null)
        {
        }
    }

    public class Marshaller<T>
    {
        public Marshaller(Func<T, byte[]> serializer, Func<byte[], T> deserializer)
        {
            Serializer = serializer;
            Deserializer = deserializer;
        }

        public Func<T, byte[]> Serializer { get; }

        public Func<byte[], T> Deserializer { get; }
    }

    public static class Marshallers
    {
        public static Marshaller<T> Create<T>(Func<T, byte[]> serializer, Func<byte[], T> deserializer) =>
            new Marshaller<T>(serializer, deserializer);
    }

    public class Method<TRequest, TResponse>
    {
        public Method(
            MethodType type,
            string serviceName,
            string name,
            Marshaller<TRequest> requestMarshaller,
            Marshaller<TResponse> responseMarshaller)
        {
            Path = "/" + serviceName + "/" + name;
            Request = requestMarshaller;
            Response = responseMarshaller;
        }

        internal string Path { get; }

        internal Marshaller<TRequest> Request { get; }

        internal Marshaller<TResponse> Response { get; }
    }

    public class Channel
    {
        public Channel(string target, ChannelCredentials credentials) => Target = target;

        internal string Target { get; }

        public Task ShutdownAsync() => Task.CompletedTask;
    }

    public abstract class CallInvoker
    {
        public abstract TResponse BlockingUnaryCall<TRequest, TResponse>(
            Method<TRequest, TResponse> method, string host, CallOptions options, TRequest request)
            where TRequest : class
            where TResponse : class;
    }

    public abstract class ClientBase
    {
        protected ClientBase(Channel channel) => CallInvoker = new HttpInvoker(channel.Target);

        protected CallInvoker CallInvoker { get; }

        protected internal class ClientBaseConfiguration { }
    }

    public abstract class ClientBase<T> : ClientBase where T : ClientBase<T>
    {
        protected ClientBase(Channel channel) : base(channel) { }

        protected abstract T NewInstance(ClientBaseConfiguration configuration);
    }

    internal sealed class HttpInvoker : CallInvoker
    {
        private readonly HttpClient _client;

        public HttpInvoker(string target)
        {
            AppContext.SetSwitch("System.Net.Http.SocketsHttpHandler.Http2UnencryptedSupport", true);
            _client = new HttpClient { BaseAddress = new Uri("http://" + target), Timeout = Timeout.InfiniteTimeSpan };
        }

        public override TResponse BlockingUnaryCall<TRequest, TResponse>(
            Method<TRequest, TResponse> method, string host, CallOptions options, TRequest request)
        {
            byte[] message = method.Request.Serializer(request);
            Task<byte[]> exchange = Task.Run(() => ExchangeAsync(method.Path, message));
            return method.Response.Deserializer(exchange.GetAwaiter().GetResult());
        }

        private async Task<byte[]> ExchangeAsync(string path, byte[] message)
        {
            var body = new byte[5 + message.Length]; // not compressed, and the length
            BinaryPrimitives.WriteInt32BigEndian(body.AsSpan(1), message.Length);
            message.CopyTo(body, 5);
            var request = new HttpRequestMessage(HttpMethod.Post, path)
            {
                Version = HttpVersion.Version20,
                Content = new ByteArrayContent(body),
            };
            request.Content.Headers.TryAddWithoutValidation("content-type", "application/grpc");
            request.Headers.TE.ParseAdd("trailers");
            try
            {
                using (HttpResponseMessage response = await _client.SendAsync(request))
                {
                    byte[] reply = await response.Content.ReadAsByteArrayAsync();
                    return Checked(response, reply);
                }
            }
            catch (HttpRequestException error)
            {
                throw new RpcException(new Status(StatusCode.Unavailable, error.Message));
            }
        }

        private static byte[] Checked(HttpResponseMessage response, byte[] reply)
        {
            var headers = response.TrailingHeaders.Concat(response.Headers);
            string status = headers.FirstOrDefault(header => header.Key == "grpc-status").Value?.First();
            if (status != "0")
            {
                throw new RpcException(new Status((StatusCode)int.Parse(status ?? "2"), "refused"));
            }
            if (reply.Length < 5 || BinaryPrimitives.ReadInt32BigEndian(reply.AsSpan(1)) != reply.Length - 5)
            {
                throw new RpcException(new Status(StatusCode.Internal, "cut short"));
            }
            return reply.AsSpan(5).ToArray();
        }
    }
}
