using UnityEngine;

namespace Tau
{
    /// <summary>The ball of a <see cref="BalanceArena"/>, with its own gravity.</summary>
    /// <remarks>
    /// Unity has one gravity for all objects; a separate force for each ball lets every episode draw another one.
    /// </remarks>
    [AddComponentMenu("Tau/Balance Ball")]
    [DisallowMultipleComponent]
    [RequireComponent(typeof(Rigidbody))]
    public sealed class BalanceBall : MonoBehaviour
    {
        /// <summary>Default gravity, in m/s².</summary>
        public const float DefaultGravity = 9.81f;

        private Rigidbody _body;
        private float _gravity = DefaultGravity;

        /// <summary>Velocity in m/s, in the world's axes.</summary>
        public Vector3 Velocity
        {
            get
            {
#if UNITY_6000_0_OR_NEWER
                return Body.linearVelocity;
#else
                return Body.velocity;
#endif
            }
        }

        private Rigidbody Body
        {
            get
            {
                if (_body == null)
                {
                    _body = GetComponent<Rigidbody>();
                    _body.useGravity = false;
                }
                return _body;
            }
        }

        /// <summary>Places the ball at rest.</summary>
        /// <param name="position">Its centre, in the world.</param>
        /// <param name="mass">In kg.</param>
        /// <param name="scale">Its diameter, in m.</param>
        /// <param name="gravity">Pull downwards, in m/s².</param>
        public void Place(Vector3 position, float mass, float scale, float gravity)
        {
            _gravity = gravity;
            transform.localScale = new Vector3(scale, scale, scale);
            transform.position = position;
            Body.mass = mass;
            Body.angularVelocity = Vector3.zero;
#if UNITY_6000_0_OR_NEWER
            Body.linearVelocity = Vector3.zero;
#else
            Body.velocity = Vector3.zero;
#endif
        }

        private void FixedUpdate()
        {
            Body.AddForce(new Vector3(0f, -_gravity, 0f), ForceMode.Acceleration);
        }
    }
}
