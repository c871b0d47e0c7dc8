using UnityEngine;

namespace Unity.MLAgents.Actuators
{
    /// <summary>A part of an array.</summary>
    public readonly struct ActionSegment<T>
        where T : struct
    {
        private readonly T[] _values;

        /// <summary>All of an array.</summary>
        public ActionSegment(T[] actionArray)
        {
            _values = actionArray;
        }

        /// <summary>How many.</summary>
        public int Length => _values == null ? 0 : _values.Length;

        /// <summary>One of them.</summary>
        public T this[int index]
        {
            get => _values[index];
            set => _values[index] = value;
        }
    }

    /// <summary>Actions of one step; the same arrays are used again in the next.</summary>
    public readonly struct ActionBuffers
    {
        internal ActionBuffers(float[] continuous)
        {
            ContinuousActions = new ActionSegment<float>(continuous);
        }

        /// <summary>Real numbers.</summary>
        public ActionSegment<float> ContinuousActions { get; }
    }

    /// <summary>How many actions.</summary>
    public struct ActionSpec
    {
        /// <summary>Real numbers.</summary>
        public int NumContinuousActions { get; set; }

        /// <summary>Only real numbers.</summary>
        public static ActionSpec MakeContinuous(int numActions)
        {
            return new ActionSpec { NumContinuousActions = numActions };
        }
    }
}

namespace Unity.MLAgents
{
    /// <summary>
    /// Asks for a decision every few steps and, if told so, for an action in all others (ML-Agents' class of this
    /// name, with the decision in step 0).
    /// </summary>
    [RequireComponent(typeof(Agent))]
    public class DecisionRequester : MonoBehaviour
    {
        /// <summary>Steps from one decision to the next.</summary>
        public int DecisionPeriod = 5;

        /// <summary>Acts in the steps between by the last decision.</summary>
        public bool TakeActionsBetweenDecisions = true;

        private Agent _agent;

        private void Awake()
        {
            _agent = GetComponent<Agent>();
            Academy.Instance.AgentPreStep += Request;
        }

        private void OnDestroy()
        {
            if (Academy.IsInitialized)
            {
                Academy.Instance.AgentPreStep -= Request;
            }
        }

        private void Request(int step)
        {
            if (step % DecisionPeriod == 0)
            {
                _agent.RequestDecision();
            }
            else if (TakeActionsBetweenDecisions)
            {
                _agent.RequestAction();
            }
        }
    }
}
