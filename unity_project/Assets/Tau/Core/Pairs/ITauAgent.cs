namespace Tau.Core
{
    /// <summary>
    /// The acting side of a pair: in Unity an ML-Agents agent, elsewhere a row of an engine's message. An <see
    /// cref="AgentTrainer"/> calls it, on its own thread; pass the action to <see cref="AgentTrainer.Answer"/>. An
    /// exception from any member ends only this pair.
    /// </summary>
    public interface ITauAgent
    {
        /// <summary>The pair's run starts.</summary>
        void Activate();

        /// <summary>The pair's run has ended, for any reason; an open decision is no longer needed.</summary>
        void Deactivate();

        /// <summary>
        /// Asks for an action: pass it to <see cref="AgentTrainer.Answer"/> once, during this call or later.
        /// </summary>
        /// <param name="prompt">
        /// The observation: the prompt's embedding, 384 numbers. All pairs share it, so do not change it. It is also
        /// the last observation of an episode that ends with the answer.
        /// </param>
        /// <param name="target">The right answer's target, one number for each action; do not change it either.</param>
        void RequestDecision(float[] prompt, float[] target);

        /// <summary>The reward of the last action; called before the end of the episode if it ends.</summary>
        void SetReward(float reward);

        /// <summary>The episode has really ended: no reward would follow.</summary>
        void EndEpisode();

        /// <summary>The episode was cut, by its limit of decisions or by the end of the run.</summary>
        void EpisodeInterrupted();
    }
}
