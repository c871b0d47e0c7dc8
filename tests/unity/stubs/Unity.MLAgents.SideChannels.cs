// Stand-ins for ML-Agents: side channels.
using System;
using System.Collections.Generic;

namespace Unity.MLAgents.SideChannels
{
    public class IncomingMessage : IDisposable
    {
        public IncomingMessage(byte[] buffer) { }

        public void Dispose() { }

        public byte[] GetRawBytes() => default;

        public bool ReadBoolean(bool defaultValue = false) => default;

        public float ReadFloat32(float defaultValue = 0.0f) => default;

        public IList<float> ReadFloatList(IList<float> defaultValue = default) => default;

        public int ReadInt32(int defaultValue = 0) => default;

        public string ReadString(string defaultValue = default) => default;
    }

    public class OutgoingMessage : IDisposable
    {
        public OutgoingMessage() { }

        public void Dispose() { }

        public void SetRawBytes(byte[] data) { }

        public void WriteBoolean(bool b) { }

        public void WriteFloat32(float f) { }

        public void WriteFloatList(IList<float> floatList) { }

        public void WriteInt32(int i) { }

        public void WriteString(string s) { }
    }

    public abstract class SideChannel
    {
        public Guid ChannelId { get; protected set; }

        protected abstract void OnMessageReceived(IncomingMessage msg);

        protected void QueueMessageToSend(OutgoingMessage msg) { }
    }

    public static class SideChannelManager
    {
        public static void RegisterSideChannel(SideChannel sideChannel) { }

        public static void UnregisterSideChannel(SideChannel sideChannel) { }
    }
}
