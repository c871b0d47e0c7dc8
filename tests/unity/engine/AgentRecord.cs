namespace Tau.Engine
{
    /// <summary>What one message says of one agent (<c>AgentInfoProto</c>).</summary>
    internal readonly struct AgentRecord
    {
        /// <summary>A record; the arrays are not copied and must not change.</summary>
        public AgentRecord(int id, float reward, bool done, bool interrupted, float[] prompt, float[] target)
        {
            Id = id;
            Reward = reward;
            Done = done;
            Interrupted = interrupted;
            Prompt = prompt;
            Target = target;
        }

        /// <summary>The agent's number, which stays for the engine's life.</summary>
        public int Id { get; }

        /// <summary>Reward since the agent's last record.</summary>
        public float Reward { get; }

        /// <summary>Whether its episode ended; else it asks for a decision.</summary>
        public bool Done { get; }

        /// <summary>Whether a limit cut the episode (<c>max_step_reached</c>).</summary>
        public bool Interrupted { get; }

        /// <summary>The prompt's embedding.</summary>
        public float[] Prompt { get; }

        /// <summary>The answer's vector.</summary>
        public float[] Target { get; }
    }
}
