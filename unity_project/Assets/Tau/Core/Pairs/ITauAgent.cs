namespace Tau.Core
{
    /// <summary>
    /// The acting side of a pair: in Unity an ML-Agents agent, elsewhere a row of an engine's message. An
    /// <see cref="AgentTrainer"/> calls it, on its own thread; the action comes back by
    /// <see cref="AgentTrainer.Answer"/>. An exception out of any member ends this pair and no other.
    /// </summary>
    public interface ITauAgent
    {
        /// <summary>The pair's run begins.</summary>
        void Activate();

        /// <summary>The pair's run is over, for whatever reason; an open decision is not wanted any more.</summary>
        void Deactivate();

        /// <summary>
        /// Asks for an action, to be given to <see cref="AgentTrainer.Answer"/> once, during this call or later.
        /// </summary>
        /// <param name="prompt">
        /// What is observed: the prompt's embedding, 384 numbers. Shared between all pairs, so it must not be changed;
        /// it is also the last observation of an episode that ends with the answer.
        /// </param>
        /// <param name="target">The right answer's target, one number an action; must not be changed either.</param>
        void RequestDecision(float[] prompt, float[] target);

        /// <summary>The reward of the action that was just given, before the end of the episode if it ends.</summary>
        void SetReward(float reward);

        /// <summary>The episode has ended for real: no reward would follow.</summary>
        void EndEpisode();

        /// <summary>The episode was cut, by its limit of decisions or by the end of the run.</summary>
        void EpisodeInterrupted();
    }
}
